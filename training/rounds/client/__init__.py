"""A client's half of a round.

- `fit`: the questions `fit`, `open` and `collect`
- `local_training`: the gradient steps of one round
- `evaluate`: predictions, counted by subgroup
"""
