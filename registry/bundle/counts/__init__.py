"""Counts of predictions, which add up over clients: what every metric is computed from.

- `counting`: counting predictions, with noise or without: what a client sends for a subgroup.
- `counts`: confusion matrices, histograms of scores, and what thresholds do.
- `score_bins`: the bins of scores; histograms of few patients merged; the working point.
- `lesions`: what several pictures of a lesion change; two models on the same pictures.
"""
