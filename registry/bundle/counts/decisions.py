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
from registry.bundle.counts.working_point import is_held_back, is_suspicious
from registry.bundle.errors import CountsError

COVERED, REPORTED, WRONG, SET_SIZE, SUSPICIOUS, CLEARED = range(6)
_SHARES = 6


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a model, as bins of scores.

    Attributes:
        set_from: a class is in the prediction set if its bin is at least this.
        report_from: an answer is reported if its confidence's bin is at least this, and its malignancy does
            not hold it back, see `registry.bundle.counts.working_point`.
        malignant_from: a picture is suspicious if its malignancy's bin is at least this; None of a model
            without a working point.
    """

    set_from: int
    report_from: int
    malignant_from: int | None = None


@dataclass(frozen=True)
class ThresholdsOfEach:
    """As `Thresholds`, of each picture its own, `(pictures,)`."""

    set_from: NDArray[np.int64]
    report_from: NDArray[np.int64]
    malignant_from: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Decisions:
    """What thresholds do to some pictures.

    Attributes:
        sums: by lesion, `(6,)` shares: pictures whose set holds the true class, reported ones, wrong ones
            among the reported, the number of classes in the sets, suspicious ones among the malignant, and
            others that are not suspicious. The last two are of no pictures where there is no working point.
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

    @property
    def suspicious(self) -> LesionSums:
        """Of the malignant pictures, those at the working point or above."""
        return self.sums[SUSPICIOUS : SUSPICIOUS + 1]

    @property
    def cleared(self) -> LesionSums:
        """Of the other pictures, those below the working point."""
        return self.sums[CLEARED : CLEARED + 1]

    @property
    def at_working_point(self) -> bool:
        """Whether there is any picture of a model with a working point."""
        return bool(self.sums.n[[SUSPICIOUS, CLEARED]].any())

    @classmethod
    def count(
        cls,
        probabilities: NDArray[np.float64],
        labels: NDArray[np.int64],
        answers: NDArray[np.int64],
        lesions: NDArray[np.int64],
        thresholds: Thresholds | ThresholdsOfEach,
        malignant: NDArray[np.bool_],
    ) -> "Decisions":
        """What thresholds do to pictures of these probabilities `(pictures, classes)`."""
        rows = np.arange(len(labels))
        in_set = score_bin(probabilities) >= np.broadcast_to(thresholds.set_from, rows.shape)[:, np.newaxis]
        held_back = is_held_back(probabilities, answers, malignant, thresholds.malignant_from)
        reported = (score_bin(probabilities[rows, answers]) >= thresholds.report_from) & ~held_back
        suspicious = is_suspicious(probabilities, malignant, thresholds.malignant_from)
        side = np.full(len(labels), -1)  # the share that a picture is of at the working point
        if thresholds.malignant_from is not None:
            side = np.where(malignant[labels], 0, 1)
        all_of = np.zeros(len(labels), dtype=np.int64)
        found = [
            (in_set[rows, labels], all_of),
            (reported, all_of),
            (answers != labels, np.where(reported, 0, -1)),
            (in_set.sum(axis=1), all_of),
            (suspicious, np.where(side == 0, 0, -1)),
            (~suspicious, np.where(side == 1, 0, -1)),
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
        shares = np.arange(_SHARES) != SET_SIZE
        if (
            (whole != n).any()
            or sums.n[WRONG] != sums.x[REPORTED]
            or sums.n[SUSPICIOUS] + sums.n[CLEARED] not in (0, n)
            or (sums.x[shares] > sums.n[shares]).any()
        ):
            raise CountsError(
                "`decisions` does not hold the pictures of the confusion matrix; the block is broken"
            )
        return cls(sums)
