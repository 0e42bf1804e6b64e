"""Fewer bytes for the weights that travel: half precision and 8 bits, with what rounding lost is kept."""
