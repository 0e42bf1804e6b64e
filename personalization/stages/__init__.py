"""The stages of a job that personalization adds: `personalize` and `calibrate`.

personalize.py      train and select personal models
personal_models.py  candidates, comparison with the global model, and what differs for models of clients
calibrate.py        temperature, thresholds and OOD detection of every model
"""
