"""One round of federated learning.

- `server`: the round loop
- `client`: local training and evaluation
- `questions`, `blocks`, `census`, `canary`, `requested_scalars`: the questions that both know
"""
