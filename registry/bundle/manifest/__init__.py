"""The manifest, `bundle.json`.

- `schema`: everything in it; `text`: its canonical text.
- `labels`: the classes; `codings`: their codes in other systems.
- `packed_arrays`: arrays as text.
"""
