"""Outcomes of patients as labels of a hospital's own manifest, and what they do to its splits.

- `tables`: which diagnosis was of which picture, and what became of the patients.
- `verdict`: what several outcomes of one lesion say together.
- `provenance`: where a label came from, as columns of the manifest.
- `labelling`: the manifest with its labels, and what changed and what did not.
- `pinning`: splits that stay as a job has drawn them.
"""
