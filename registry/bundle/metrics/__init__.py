"""Metrics: every figure, computed from added-up `Counts`; `docs/metrics.md` defines each.

A figure is one short function of `Counts`, computed along the last axes. One that is not defined (no
pictures, a class without positives) is nan, never 0. Its 95 % interval comes from the same sums.

- `classification`, `malignancy`, `calibration`, `selective`: figures of all pictures or a subgroup.
- `fairness`, `differences`: subgroups compared; `intersections`: parts of subgroups; `over_clients`: clients.
- `sample`, `design_effect`: what intervals are made from; `limits`: what they are.
- `moments`: those of most figures, from a variance (`shares`, `areas`, `risk`) and an `exact` rule.
- `distances`: those of figures that noise raises (`calibration_limits`, `fairness_limits`).
- `decided`: what thresholds do; `wilson`, `interval`: other intervals; `ratio`: quotients.
- `estimate`: a figure with its interval; `summary`: all of it, as JSON.
"""
