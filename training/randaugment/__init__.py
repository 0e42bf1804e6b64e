"""RandAugment as strong augmentation: `rand_augment` on whole batches, and its operations by kind."""

from training.randaugment.rand_augment import OPERATIONS, RandAugmentConfig, rand_augment

__all__ = ["OPERATIONS", "RandAugmentConfig", "rand_augment"]
