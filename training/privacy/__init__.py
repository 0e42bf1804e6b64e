"""How updates are transformed on their way: masks, noise, and fewer bits.

- `secagg`: the server learns a sum and none of its parts
- `dp`: clipping, noise, and the account of it
- `compression`: half precision and 8 bits
- `settings`: the blocks `privacy` and `compression` of a job
"""
