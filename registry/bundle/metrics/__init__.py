"""Metrics: every figure, computed from added-up `Counts`; `docs/metrics.md` defines each.

A figure is one short function of `Counts`. It is computed along the last axes, so that counts with
an axis of bootstrap replicates give one value per replicate; a figure that is not defined (no
pictures, a class without positives) is nan, never 0.

- `classification`, `malignancy`, `calibration`, `selective`, `sets`: figures of all pictures or a subgroup.
- `fairness`, `differences`: subgroups compared; `intersections`: parts of subgroups; `over_clients`: clients.
- `interval`, `wilson`, `exact`: intervals; `estimate`: a figure with its interval; `ratio`: quotients.
- `summary`: all of it, as JSON.
"""
