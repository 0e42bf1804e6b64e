"""The stages of a job that personalization adds: `personalize` and `calibrate`.

personalize.py  train and select personal models
per_client.py   what differs where models are of clients, not of subgroups
calibrate.py    temperature, thresholds and OOD detection of every model
"""
