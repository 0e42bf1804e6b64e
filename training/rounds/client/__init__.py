"""A client's half of a round.

- `fit`: the requests `fit`, `open` and `collect`
- `evaluate`: predictions, counted by subgroup
- `embed`, `head_gradient`: features of a frozen encoder, and sums for a head on them
- `disclosure`, `ledger`: what leaves of counts, and what was released before
"""
