"""The figures of the report: each module draws one kind and gives the numbers behind it.

bars.py, learning_curves.py, fine_tuning.py, pseudo_labels.py  accuracy by subgroup, by round, by epoch
reliability.py  calibration
frontier.py                       fairness against accuracy
heat_map.py, peers.py, similarity.py  numbers between clients
"""
