"""Differential privacy: noise on what a client sends, and the account of what all noise together protects.

- `updates`: clipping and noise of a whole update; the (ε, δ) of all releases, and what is reported of it
- `counts`: noise on counts of answers, and the account of it
"""
