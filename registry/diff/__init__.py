"""What changed between two versions of a model: what they come from, what they promise, how they served.

- `facts`: everything that a manifest says but figures, one value under each name.
- `figures`: test figures side by side, with their intervals.
- `versions`: both, for two versions of a registry.
- `lines`, `command`: `dermfed-registry diff`.
"""
