"""A client's half of a round.

- `fit`: the requests `fit`, `open` and `collect`
- `evaluate`: predictions, counted by subgroup
- `embed`, `head_gradient`: features of a frozen encoder, and sums for a head on them
- `ledger`, `noisy_blocks`: what was released before, and noise
"""
