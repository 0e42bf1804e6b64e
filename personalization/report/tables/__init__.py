"""The tables of the report, one module for each kind.

subgroups.py, classes.py, clients.py, intersections.py, unseen.py, differences.py  test figures
selection.py, frontier.py                                 epochs
calibration.py, calibration_error.py, served.py, ood.py   thresholds and what they come to
run_facts.py, communication.py                            the run and its traffic
"""
