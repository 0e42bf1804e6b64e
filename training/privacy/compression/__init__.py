"""Compression of the weights that travel: half precision and 8 bits, with error feedback.

- `client`, `server`: the two halves
- `quantization`: one tensor in 16 or 8 bits, and back
"""
