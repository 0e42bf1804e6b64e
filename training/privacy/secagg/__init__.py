"""Secure aggregation (Bonawitz et al. 2017): the server learns a sum and none of its parts.

- `client`, `server`, `messages`: the protocol's two halves, and its messages
- `masked_sum`, `aggregation`: sums of withheld tensors, as rounds and figures use them
- `keys`, `shamir`, `fixed_point`: key agreement, secret sharing, and numbers that can be masked
"""
