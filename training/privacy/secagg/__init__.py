"""Secure aggregation (Bonawitz et al. 2017): the server learns a sum and none of its parts.

- `client`, `server`, `messages`: the protocol's two halves, and its messages
- `sums`: sums of withheld tensors, as rounds and figures use them
- `keys`, `arithmetic`: keys and signatures; secret sharing, and numbers that can be masked
"""
