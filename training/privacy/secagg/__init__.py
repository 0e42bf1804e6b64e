"""Secure aggregation (Bonawitz et al. 2017): the server learns a sum and none of its parts.

- `client`, `server`, `messages`: the protocol's two halves, and its messages
- `cohorts`: over whom a client let sums be unmasked, so that no other sum of the same ever is
- `sums`: sums of withheld tensors, as rounds and figures use them
- `keys`, `shamir`, `fixed_point`: keys and signatures, secret sharing, and numbers that can be masked
"""
