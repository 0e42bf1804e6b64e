"""Counts of predictions, which add up over clients: what every figure is computed from.

- `count`: counting predictions; `block`: what a client sends for a subgroup, `histograms` the heart of it.
- `merged_bins`: histograms of few pictures made coarse.
- `lesion_sums`: what several pictures of a lesion change.
- `decisions`: what thresholds do.
- `confusion`: confusion matrices of parts of a subgroup; `score_bins`: the bins of scores.
- `reference_histograms`: histograms of test scores in a bundle, for drift.
"""
