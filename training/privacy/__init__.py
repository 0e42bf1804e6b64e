"""How updates are transformed on their way: masks, noise, and fewer bits.

- `secagg`: the server learns a sum and none of its parts
- `noisy_updates`, `noisy_counts`: clipping, noise, and the (ε, δ) of all releases
- `compression`: half precision and 8 bits
- `settings`: the blocks `privacy` and `compression` of a job
"""
