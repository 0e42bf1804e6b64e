"""One round of federated learning.

- `server`: the round loop
- `client`: local training and evaluation
- `requests`, `census`: the requests that both know
"""
