"""The algorithms that a system is put together from, and what they see of a client.

- `objectives`: what a client minimises
- `aggregators`: how the server combines the clients' models
- `exchanges`: what travels besides weights
- `sync`: which parameters travel
- `augmentations`: random changes of batches of pictures
- `optimizers`, `sampling`: optimizers and schedules; which pictures an epoch draws
- `client`, `client_state`, `local_model`: one client, what it keeps, and the model that it trains
"""
