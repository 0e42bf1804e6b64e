"""Counts of predictions, which add up over clients: a confusion matrix and histograms of scores."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.score_bins import SCORE_BINS, ScoreBins, bins_of
from registry.bundle.errors import CountsError


@dataclass(frozen=True)
class Counts:
    """Confusion matrix and score histograms of predictions; arrays may carry leading axes.

    Attributes:
        confusion: `(..., classes, classes)`, true by predicted class.
        scores: `(..., classes, 2, bins)`, for each class the histogram of its probability over the
            pictures not of the class (0) and of the class (1).
        malignancy: `(..., 2, bins)`, the malignancy probability over the pictures that are not
            malignant (0) and malignant (1); all zero when the labels are not of both kinds.
        confidence: `(..., 2, bins)`, the highest probability over wrong (0) and right (1) answers.
    """

    confusion: NDArray[np.int64]
    scores: NDArray[np.int64]
    malignancy: NDArray[np.int64]
    confidence: NDArray[np.int64]

    @classmethod
    def zeros(cls, num_classes: int) -> "Counts":
        """The counts of no pictures."""
        return cls(*(np.zeros(shape, dtype=np.int64) for shape in array_shapes(num_classes).values()))

    @property
    def bins(self) -> ScoreBins:
        """The bins of the histograms."""
        return bins_of(self.confidence.shape[-1])

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.confusion.shape[-1])

    @property
    def n(self) -> NDArray[np.int64]:
        """How many pictures were counted, `(...)`."""
        total: NDArray[np.int64] = np.asarray(self.confusion.sum(axis=(-2, -1)))
        return total

    @property
    def tells_confidence(self) -> NDArray[np.bool_]:
        """Whether `confidence` has the pictures, `(...)`; told with noise it has none."""
        return np.asarray(self.confidence.sum(axis=(-2, -1)) == self.n)

    def __add__(self, other: "Counts") -> "Counts":
        if self.confusion.shape != other.confusion.shape:
            raise CountsError(
                f"counts with confusion matrices of shape {self.confusion.shape} and {other.confusion.shape} "
                "do not add up: both need the same classes"
            )
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """Serializes the counts for a message, one int32 array per attribute.

        Raises:
            CountsError: a count is over 2,147,483,647.
        """
        largest = np.iinfo(np.int32).max
        arrays = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, array in arrays.items():
            if array.size and array.max() > largest:
                raise CountsError(
                    f"a count of {array.max():,} in `{name}` is over {largest:,}, the most that travels"
                )
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """Reads and validates received counts: names, shapes, signs, and sums that must agree.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        return cls(**_checked(arrays))


def array_shapes(num_classes: int, bins: int = SCORE_BINS) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `Counts`, without a leading axis, in the order of its attributes."""
    return {
        "confusion": (num_classes, num_classes),
        "scores": (num_classes, 2, bins),
        "malignancy": (2, bins),
        "confidence": (2, bins),
    }


def _checked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    names = [each.name for each in fields(Counts)]
    if sorted(arrays) != sorted(names):
        raise CountsError(f"counts are the arrays {', '.join(names)}; these are {', '.join(sorted(arrays))}")
    confusion = arrays["confusion"]
    if confusion.ndim != 2 or confusion.shape[-1] != confusion.shape[-2]:
        raise CountsError(f"`confusion` has shape {confusion.shape}; it is classes by classes")
    bins = bins_of(arrays["confidence"].shape[-1] if arrays["confidence"].ndim else 0)
    for name, shape in array_shapes(confusion.shape[-1], len(bins)).items():
        array = arrays[name]
        if not np.issubdtype(array.dtype, np.integer) or array.shape != shape:
            raise CountsError(
                f"`{name}` is {array.dtype} of shape {array.shape}; whole numbers of shape {shape} are "
                "expected"
            )
        if array.size and array.min() < 0:
            raise CountsError(f"`{name}` holds {array.min()}; a count is never negative")
    counts = {name: np.asarray(arrays[name]).astype(np.int64) for name in names}

    of_class = counts["confusion"].sum(axis=-1)
    n = of_class.sum(axis=-1)
    right = np.trace(counts["confusion"], axis1=-2, axis2=-1)
    malignancy = counts["malignancy"].sum(axis=(-2, -1))
    agree = (
        (counts["scores"].sum(axis=-1)[..., 1] == of_class).all()
        and (counts["scores"].sum(axis=(-2, -1)) == n[..., np.newaxis]).all()
        and (counts["confidence"].sum(axis=-1) == np.stack([n - right, right], axis=-1)).all()
        and ((malignancy == 0) | (malignancy == n)).all()
    )
    if not agree:
        raise CountsError(
            "the histograms do not hold the pictures of the confusion matrix; the block is broken"
        )
    return counts
