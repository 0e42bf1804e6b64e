"""Answers and their outcomes, counted by what was answered: the strata in which following up is alike.

Who is biopsied is not drawn at random: a lesion that was called suspicious is, one that was not is seldom
followed up. Within a stratum (a side of the working point, and a range of the probability of malignancy)
the followed up are taken to stand for the others: missing at random given the answer, as Begg and Greenes
have it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Strata:
    """Counts by stratum, all `(strata,)`.

    Attributes:
        flagged: which strata are called malignant.
        answered: everybody who was answered.
        confirmed: those of them whose outcome is known.
        malignant: those of these who have a malignant lesion.
    """

    flagged: NDArray[np.bool_]
    answered: Counts
    confirmed: Counts
    malignant: Counts

    def __post_init__(self) -> None:
        """Checks what every stratum must hold.

        Raises:
            ValueError: more outcomes than answers, more malignant ones than outcomes, or negative counts.
        """
        if (self.malignant < 0).any() or (self.confirmed < self.malignant).any():
            raise ValueError("a stratum has more malignant outcomes than outcomes, or fewer than none")
        if (self.answered < self.confirmed).any():
            raise ValueError("a stratum has more outcomes than answers")

    @classmethod
    def count(
        cls,
        stratum: Counts,
        flagged: NDArray[np.bool_],
        confirmed: NDArray[np.bool_],
        malignant: NDArray[np.bool_],
    ) -> "Strata":
        """Counts of answers, each `(answers,)`; `malignant` says something where `confirmed` is alone.

        Args:
            stratum: of each answer, an index into `flagged`.
            flagged: of each stratum, `(strata,)`.
            confirmed: whose outcome is known.
            malignant: who has a malignant lesion.
        """
        size = len(flagged)
        return cls(
            flagged,
            np.bincount(stratum, minlength=size),
            np.bincount(stratum[confirmed], minlength=size),
            np.bincount(stratum[confirmed & malignant], minlength=size),
        )
