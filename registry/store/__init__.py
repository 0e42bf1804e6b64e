"""The content-addressed object store: objects by their sha256, on any filesystem of fsspec.

- `objects`: the store, and opening it by its address.
- `bundles`: reading a version's bundle back, verified; `garbage`: garbage collection.
"""
