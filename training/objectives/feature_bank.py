"""A bank of features, first in first out: what MoCo calls its queue (He et al. 2020, section 3.2)."""

import torch
from torch import Tensor


class FeatureBank:
    """The newest features, at most so many.

    Attributes:
        features: `(features, width)`, the oldest first.
    """

    def __init__(self, features: Tensor, capacity: int) -> None:
        """Begin with `features` `(features, width)`, the oldest first, of which the newest `capacity` fit."""
        self._capacity = capacity
        self.features = features[-capacity:]

    def push(self, latest: Tensor) -> None:
        """Put `latest` `(features, width)` in; the oldest go where there is no room."""
        # A new tensor each time: a gradient may still be wanted through what was there before.
        self.features = torch.cat([self.features, latest])[-self._capacity :]
