"""Pictures of noise in memory, for benchmarks that measure time and memory and never look at accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from registry.bundle.labels import Label
from training.data.dataset import Examples, Split


@dataclass(frozen=True)
class NoisePictures:
    """Equal clients over one pool of pictures; implements `training.data.dataset.Dataset`.

    Every client shows the same `per_split` pictures of each split, so that the data take as much memory for
    ten clients as for a thousand. Only the splits named in `splits` hold any.

    Attributes:
        count: how many clients.
        per_split: pictures of one client in one split.
        size: pixels on both sides.
        splits: which splits hold pictures.
    """

    count: int
    per_split: int
    size: int
    splits: tuple[Split, ...] = ("train",)

    labels = (
        Label(code="B", name="Benign", malignancy="benign"),
        Label(code="M", name="Malignant", malignancy="malignant"),
    )
    subgroups = ("light", "dark")
    fingerprint = "noise"
    unseen = ()
    communities: ClassVar[Mapping[str, Sequence[str]]] = {}

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients' ids."""
        return tuple(f"client-{number:04d}" for number in range(self.count))

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """The pool, `(per_split, size, size, 3)`."""
        shape = (self.per_split, self.size, self.size, 3)
        return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)

    def examples(self, client: str, split: Split) -> Examples:
        """The pool, labelled in turn; the subgroup changes every second picture."""
        numbers = np.arange(self.per_split if split in self.splits else 0, dtype=np.int64)
        return Examples(self.images, numbers, numbers % 2, numbers // 2 % 2, numbers)
