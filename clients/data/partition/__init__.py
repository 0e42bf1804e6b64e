"""Partitioning pictures: which client holds each, in which split it is, and whether its label is known.

partition.py  the whole act for a job, and for one manifest before any job
rules.py      clients by a column's values, by name, Dirichlet or IID; splits; components in given proportions
roles.py      the server, unlabelled pictures, clients never trained on, divided sites, which labels are kept
"""
