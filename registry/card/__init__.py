"""The model card: what a bundle says of itself, for whoever decides whether to use the model.

After Mitchell et al. 2019, "Model Cards for Model Reporting" (FAT* 2019): what a model is for and whom it is
not for, how it fared in each subgroup, and what is unknown. Nothing is said that the bundle does not say;
figures in a form that is not ours are named as not understood, and never guessed.

- `contents`: `card_json`, the card of one bundle, and `release_card`, that of all versions of a release.
- `use`, `limits`: the sentences about use and about what is unknown.
- `figures`: reading test figures in whatever form they are.
- `sections`, `tables`, `page`: the same as a page that loads nothing.
- `command`: `dermfed-registry card`.
"""
