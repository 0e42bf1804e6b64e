"""Metrics: every one computed from added-up `Counts`; `docs/metrics.md` defines each.

A metric is one short function of `Counts`, computed along the last axes. One that is not defined (no
pictures, a class without positives) is nan, never 0. Its 95 % interval comes from the same sums.

- `classification`, `calibration`, `selective`: metrics of all pictures or a subgroup, and their variances.
- `fairness`: subgroups compared; `intervals`: limits of shares and of other metrics, and design effects.
- `summary`: the table of all metrics with their intervals, and summaries as JSON, with clients and cells.
- `patient`: what matters for a patient, what went wrong in a run, and the gain of a second model.
"""
