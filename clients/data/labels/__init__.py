"""Classes, subgroups and traits of a job's pictures, from the rows of manifests.

label_map.py  from codes to classes, of one source or several
subgroups.py  the subgroup of each picture, and columns whose intersections with subgroups are evaluated
"""
