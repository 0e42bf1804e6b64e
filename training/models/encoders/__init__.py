"""Encoders that know something: where weights come from, what they are called, and how they see pictures.

- `source`: what `model.weights` names, opened: a file, an installed package, a hub
- `packages`: packages of weights that can be installed
- `hub`: weights fetched where a job asks for it
- `files`: tensors of a file, read without running anything of it
- `names`: other authors' names for a timm model's tensors
- `loading`: tensors into a model, and what is said of it
- `preprocessing`: the normalisation and interpolation that an encoder was trained with
- `inspection`: what a file contains, for `dermfed-train encoders`
"""
