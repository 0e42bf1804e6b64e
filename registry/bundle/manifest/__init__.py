"""The manifest, `bundle.json`.

- `schema`: everything in it, `rules`: of that, what calibration chose; `text`: its canonical text.
- `labels`: the classes; `codings`: their codes in other systems.
- `packed_arrays`: arrays as text.
"""
