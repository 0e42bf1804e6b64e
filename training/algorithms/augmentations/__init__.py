"""Augmentations: random changes of whole batches of pictures, on the device.

- `batch`: flips, crops, turns and colour of the `augment` block
- `operations`: operations that change pictures by a level, each picture by its own
- `rand_augment`, `auto_augment`: which operations, and how strong
"""
