"""AutoAugment on whole batches: `auto_augment`, and the policies by name."""

from training.autoaugment.auto_augment import OPERATIONS, auto_augment
from training.autoaugment.imagenet import IMAGENET
from training.autoaugment.policy import Policy, Step

POLICIES = {"imagenet": IMAGENET}
"""What `augment.auto` may name."""

__all__ = ["IMAGENET", "OPERATIONS", "POLICIES", "Policy", "Step", "auto_augment"]
