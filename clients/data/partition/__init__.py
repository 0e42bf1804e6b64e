"""Partitioning pictures: which client holds each, in which split it is, and whether its label is known.

partition.py      the whole act for a job, and for one manifest before any job
splits.py         train, validation, calibration and test
rules.py          clients by a column's values, by name, Dirichlet or IID; components in given proportions
roles.py          the server, a client with all unlabelled pictures, clients never trained on, divided sites
label_masking.py  which training pictures keep their labels
"""
