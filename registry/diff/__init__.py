"""The difference between two versions of a model: lineage, labels, thresholds and test figures.

- `facts`: everything in a manifest but figures, one value under each dotted name.
- `figures`: test figures side by side, with their intervals.
- `versions`: both, for two versions of a registry.
"""
