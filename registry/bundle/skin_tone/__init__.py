"""Skin tone.

- `scales`: the scales on which it is declared.
- `typology_angle`: the individual typology angle of the skin in a picture.
"""
