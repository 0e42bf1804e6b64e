"""Calibration: temperature, prediction sets, triage, conclusions, and out-of-distribution detection.

temperature.py  temperature scaling
conformal.py    prediction sets
mahalanobis.py  Gaussians of the classes, from clients' sums
ood.py          the threshold on the distance from them
tone_ranges.py  typology angles of each declared skin tone
"""
