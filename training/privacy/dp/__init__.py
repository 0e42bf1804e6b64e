"""Differential privacy: noise on a client's update, and the account of what all noise together protects.

- `client_level`: clipping and noise of a whole update
- `accountant`, `report`: the (ε, δ) of all releases, and what is reported of it
"""
