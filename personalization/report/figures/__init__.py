"""The figures of the report: each module draws one kind and gives the numbers behind it.

bars.py, curves.py  accuracy by subgroup, by round and by epoch; fairness against accuracy
reliability.py      calibration
peers.py            numbers between clients
"""
