"""Metrics: every one computed from added-up `Counts`; `docs/metrics.md` defines each.

A metric is one short function of `Counts`, computed along the last axes. One that is not defined (no
pictures, a class without positives) is nan, never 0. Its 95 % interval comes from the same sums.

- `classification`, `calibration`, `selective`: metrics of all pictures or a subgroup.
- `fairness`: subgroups compared; `patient`: what counts for a patient, and the gain of a second model.
- `intervals`: limits of shares and of other metrics, and design effects of pictures of one lesion.
- `estimate`: a metric with its interval; `summary`: all of them, as JSON, with intersections and clients.
- `findings`: what went wrong in a run for a patient.
"""
