"""A release as one file, for hospitals without a network: `dermfed-registry export` and `import`.

- `index`: what the file says of itself, `release.json`.
- `container`: the file: a zip that is written in one way only, and read only if it was written so.
- `departure`: from a registry into a file.
- `arrival`: from a file, checked, into a registry.
- `command`: the two commands.
"""
