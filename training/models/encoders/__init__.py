"""Encoders with weights: where those come from, what they are called, and how pictures are shown to them.

- `files`: tensors of a file, read without running anything of it, and the preprocessing that they expect
- `sources`: what `model.weights` names, opened: a file, an installed package, a hub
- `loading`: tensors into a model, also by other authors' names
- `several`: several frozen encoders, layers and views as one
- `inspection`: what a file contains, for `dermfed-train encoders`
"""
