"""The content-addressed object store: objects by their sha256, in a folder or on any filesystem of fsspec.

- `base`: the store, opened by its address.
- `bundles`: a version's bundle read back and verified, a store that was lost, and garbage collection.
"""
