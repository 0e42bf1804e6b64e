"""The look ahead of `--check`: what would stop a job, who holds what, and how long a batch takes.

matrix.py     pictures by client, split, subgroup and class, and of which nothing will be told
preflight.py  every stage planned as it will be, a batch timed, and all of it together
"""
