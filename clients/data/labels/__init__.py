"""Classes, subgroups and traits of a job's pictures, from the rows of manifests.

taxonomy.py      what the known codes mean, and whether they are malignant
label_map.py     from codes to classes
common_codes.py  the same over several sources
subgroups.py     the subgroup of each picture
undeclared.py    pictures of no subgroup, counted by why
traits.py        columns whose intersections with subgroups are evaluated
"""
