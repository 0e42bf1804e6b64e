"""Whether what comes in still looks like what the model was tested on, by subgroup.

`bins` the histograms that are kept, `counting` how a diagnosis gets into them, `reference` what the bundle
says they looked like on its test pictures, `distance` how far apart the two are and how far they would be
by chance, `table` all of it for the operator's page and for Prometheus.
"""

from serving.drift.table import DriftRow, drift_table

__all__ = ["DriftRow", "drift_table"]
