"""The tables of the report, one module for each kind.

subgroups.py, intersections.py  test metrics by subgroup, class, client and intersection
selection.py                    epochs
calibration.py, served.py       thresholds and what they come to
run.py                          the run, its traffic, its clients and its probes
"""
