"""What a client tells of its calibration pictures: two histograms from which thresholds are fitted.

Both are merged where pictures are few, and each run is counted halfway down to the run below: a threshold at
an occupied bin has exactly the pictures counted there and above at or above it. Of `truth` runs begin at the
bottom, where the threshold of prediction sets lies; of `confidence` at the top, where that of referral is
looked for. Wrong answers are counted once more, just below the run above: at any threshold, of several
hospitals too, no fewer are wrong than there were and no more are answered, so that limits hold. Pictures
that are referred whatever their confidence are counted in bin 0, where no confidence is: a threshold above
it reports none of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.counts.score_bins import SCORE_BINS, highest, lowest, merge, score_bin
from training.errors import MessageError
from training.messages.message import Tensors, Update

TRUTH, CONFIDENCE = "truth", "confidence"


@dataclass(frozen=True)
class CalibrationCounts:
    """Histograms of calibration pictures, one of each lesion; those of clients add up.

    Attributes:
        truth: the probability of the true class, `(bins,)`.
        confidence: the highest probability, of all answers (0) and of wrong ones (1), `(2, bins)`.
    """

    truth: NDArray[np.int64]
    confidence: NDArray[np.int64]

    @classmethod
    def none(cls) -> "CalibrationCounts":
        """Those of no pictures."""
        return cls(np.zeros(SCORE_BINS, dtype=np.int64), np.zeros((2, SCORE_BINS), dtype=np.int64))

    @classmethod
    def count(
        cls,
        probabilities: NDArray[np.float32],
        labels: NDArray[np.int64],
        patients: NDArray[np.int64],
        smallest_cell: int,
        held_back: NDArray[np.bool_] | None = None,
    ) -> "CalibrationCounts":
        """Those of some pictures.

        Args:
            probabilities: `(pictures, classes)`.
            labels: class indices `(pictures,)`.
            patients: of each picture, `(pictures,)`.
            smallest_cell: the fewest patients of an occupied bin.
            held_back: which are referred whatever their confidence, `(pictures,)`; none where not given.
        """
        rows = np.arange(len(labels))
        answers = probabilities.argmax(axis=1)
        of_truth = merge(
            score_bin(probabilities[rows, labels]), patients, smallest_cell, lowest, from_below=True
        )
        confidence = score_bin(probabilities[rows, answers])
        if held_back is not None:
            confidence = np.where(held_back, 0, confidence)
        confident = merge(confidence, patients, smallest_cell, lowest)
        mistaken = merge(confidence, patients, smallest_cell, below_next)[answers != labels]
        truth, of_all, of_wrong = (
            np.bincount(of, minlength=SCORE_BINS) for of in (of_truth, confident, mistaken)
        )
        return cls(truth, np.stack([of_all, of_wrong]))

    def __add__(self, other: "CalibrationCounts") -> "CalibrationCounts":
        return CalibrationCounts(self.truth + other.truth, self.confidence + other.confidence)

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """The histograms as tensors to send."""
        return {
            TRUTH: torch.from_numpy(self.truth.astype(np.int32)),
            CONFIDENCE: torch.from_numpy(self.confidence.astype(np.int32)),
        }

    @classmethod
    def from_update(cls, update: Update) -> "CalibrationCounts":
        """Read the histograms of an update.

        Raises:
            MessageError: they are none, or not of the same pictures.
        """
        nothing = cls.none()
        truth = read_counts(update, TRUTH, nothing.truth.shape)
        confidence = read_counts(update, CONFIDENCE, nothing.confidence.shape)
        of_all, of_wrong = confidence.sum(axis=1)
        if truth.sum() != of_all or of_wrong > of_all:
            raise MessageError(
                f"{update.client} counts {truth.sum()} pictures by the probability of their class, {of_all} "
                f"by their confidence and {of_wrong} of these as wrong; all are of the same pictures"
            )
        return cls(truth, confidence)


def below_next(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
    """Just below the bin at which the run above is counted; what is held back stays at bin 0."""
    if not bins.any():
        return 0
    return highest(bins, below, None if above is None else above - 1)


def read_counts(update: Update, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The counts of this name and shape in an update.

    Raises:
        MessageError: they are none.
    """
    tensors: Tensors = update.tensors
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or tensor.is_floating_point() or (tensor < 0).any():
        found = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise MessageError(
            f"{update.client} sent {found} as `{name}`; expected whole numbers from 0 on, of shape {shape}"
        )
    counts: NDArray[np.int64] = tensor.numpy().astype(np.int64)
    return counts
