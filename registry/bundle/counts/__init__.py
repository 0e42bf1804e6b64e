"""Counts of predictions, which add up over clients: what every figure is computed from.

- `count`: counting predictions; `block`: the counts that a client sends for a subgroup.
- `confusion`: confusion matrices of parts of a subgroup; `score_bins`: the bins of scores.
- `reference_histograms`: histograms of test scores in a bundle, for drift.
"""
