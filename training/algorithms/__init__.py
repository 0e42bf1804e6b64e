"""The algorithms that a system is put together from, and what they see of a client.

- `objectives`: what a client minimises
- `aggregators`: how the server combines the clients' models
- `exchanges`: tensors sent besides weights
- `sync`: which parameters are sent
- `trainable`: which part of the model learns
- `augmentations`: random changes of batches of pictures, on the device; `rand_augment`, `auto_augment`: which
  operations, and how strong; `augmentation_operations`: each picture by its own level
- `client`: one client, with what it keeps and released
- `local_model`: the model that it trains, with optimizers and schedules
"""
