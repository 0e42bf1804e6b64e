"""The content-addressed object store: objects by their sha256, in a folder or on any filesystem of fsspec.

- `base`: the interface, and a store in a folder; `remote`: one on fsspec.
- `bundles`: opening a store by its address, and reading a version's bundle back, verified.
- `garbage`: garbage collection.
"""
