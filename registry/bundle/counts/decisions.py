"""What a model's thresholds do to some pictures, counted where the pictures are.

Histograms leave merged, so that a threshold would cut through a run of pictures. Coverage, set size and
referral at the thresholds that are served are therefore counted by the client, exactly.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.counts.score_bins import score_bin
from registry.bundle.errors import CountsError

COVERED, REPORTED, WRONG, SET_SIZE = range(4)
_SHARES = 4


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a model, as bins of scores.

    Attributes:
        set_from: a class is in the prediction set if its bin is at least this.
        report_from: an answer is reported if its confidence's bin is at least this.
    """

    set_from: int
    report_from: int


@dataclass(frozen=True)
class ThresholdsOfEach:
    """As `Thresholds`, of each picture its own, `(pictures,)`."""

    set_from: NDArray[np.int64]
    report_from: NDArray[np.int64]


@dataclass(frozen=True)
class Decisions:
    """What thresholds do to some pictures.

    Attributes:
        sums: by lesion, `(4,)` shares: pictures whose set holds the true class, reported ones, wrong ones
            among the reported, and the number of classes in the sets.
    """

    sums: LesionSums

    def __add__(self, other: "Decisions") -> "Decisions":
        return Decisions(self.sums + other.sums)

    @property
    def covered(self) -> LesionSums:
        """Of all pictures, those whose prediction set holds the true class."""
        return self.sums[COVERED : COVERED + 1]

    @property
    def reported(self) -> LesionSums:
        """Of all pictures, those that are not referred."""
        return self.sums[REPORTED : REPORTED + 1]

    @property
    def wrong(self) -> LesionSums:
        """Of the reported pictures, those answered wrongly."""
        return self.sums[WRONG : WRONG + 1]

    @property
    def set_sizes(self) -> LesionSums:
        """Of all pictures, the classes in their prediction sets."""
        return self.sums[SET_SIZE : SET_SIZE + 1]

    @classmethod
    def count(
        cls,
        probabilities: NDArray[np.float64],
        labels: NDArray[np.int64],
        answers: NDArray[np.int64],
        lesions: NDArray[np.int64],
        thresholds: Thresholds | ThresholdsOfEach,
    ) -> "Decisions":
        """What thresholds do to pictures of these probabilities `(pictures, classes)`."""
        rows = np.arange(len(labels))
        in_set = score_bin(probabilities) >= np.broadcast_to(thresholds.set_from, rows.shape)[:, np.newaxis]
        reported = score_bin(probabilities[rows, answers]) >= thresholds.report_from
        all_of = np.zeros(len(labels), dtype=np.int64)
        found = [
            (in_set[rows, labels], all_of),
            (reported, all_of),
            (answers != labels, np.where(reported, 0, -1)),
            (in_set.sum(axis=1), all_of),
        ]
        sums = [LesionSums.count(x.astype(np.int64), of, lesions, 1).to_array() for x, of in found]
        return cls(LesionSums(*np.concatenate(sums).T))

    @classmethod
    def from_array(cls, rows: NDArray[Any], n: int) -> "Decisions":
        """Reads and validates a received array about n pictures.

        Raises:
            CountsError: it is not what `sums.to_array` gives.
        """
        sums = LesionSums.from_array(rows, _SHARES, "decisions")
        whole = sums.n[[COVERED, REPORTED, SET_SIZE]]
        if (
            (whole != n).any()
            or sums.n[WRONG] != sums.x[REPORTED]
            or (sums.x[:SET_SIZE] > sums.n[:SET_SIZE]).any()
        ):
            raise CountsError(
                "`decisions` does not hold the pictures of the confusion matrix; the block is broken"
            )
        return cls(sums)
