"""Drift: whether the pictures that come in look like those the model was tested on, by subgroup.

- `bins`: the bins of the histograms that are compared.
- `counting`: the histograms of what was answered; `count_later`: a background thread that fills them.
- `reference`: the bundle's histograms of its test pictures.
- `distance`: PSI and Jensen-Shannon divergence, and how large they are by chance.
- `table`: the comparisons for the operator's page and for Prometheus.
"""

from serving.monitoring.drift.table import DriftRow, drift_table

__all__ = ["DriftRow", "drift_table"]
