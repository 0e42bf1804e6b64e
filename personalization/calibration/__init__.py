"""Calibration: temperature, prediction sets, triage, conclusions, and out-of-distribution detection.

temperature.py    temperature scaling
at_thresholds.py  counts at few thresholds, and the working point
triage.py, conclusions.py  what is fitted to such counts
conformal.py      prediction sets, and the threshold of out-of-distribution detection
mahalanobis.py    Gaussians of the classes, from clients' sums
tone_ranges.py    typology angles of each declared skin tone
"""
