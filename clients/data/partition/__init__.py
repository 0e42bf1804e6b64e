"""Partitioning pictures: which client holds each, in which split it is, and whether its label is known.

partition.py           the whole act: splits, clients and known labels of all pictures of a job
pool.py                the columns of the pictures that are partitioned
assign.py              components assigned to splits or clients in given proportions
splits.py              train, validation, calibration and test
rules.py               clients by a column's values, by name, Dirichlet or IID
divide_sites.py        sites divided into several clients
server.py              the server's own labelled pictures
label_masking.py       which training pictures keep their labels
unlabelled_client.py   one client with all unlabelled pictures
unseen.py              clients that are never trained on
partition_manifest.py  one manifest divided before any job
"""
