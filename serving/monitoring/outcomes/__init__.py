"""Answers that are kept so that their outcomes can be given, where an operator names a database for them.

- `kept`: what is kept of an answer.
- `keeping`: a thread that writes them, some together.
- `looking`: a thread that has the figures of the field computed every ten minutes, in one process of all.
- `field_view`, `field_metrics`: what it found, for the operator's page and Prometheus.
"""
