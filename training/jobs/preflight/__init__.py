"""The look ahead of `--check`: what would stop a job, who holds what, and what the run will take.

rehearsal.py     every stage is planned as it will be, before anything is trained
matrix.py        pictures by client, split, subgroup and class, and of which nothing will be told
few_pictures.py  a data set cut down to a few pictures of one client
timed.py         a step of each stage on those
estimate.py      time, memory and traffic of the run, from the step and the plan
preflight.py     all of it together
"""
