"""A release as one file, for hospitals without a network: `dermfed-registry export` and `import`.

- `container`: the file and its index: a zip that is written in one way only, and read only if written so.
- `export_release`: from a registry into a file; `import_release`: from a file, verified, into a registry.
"""
