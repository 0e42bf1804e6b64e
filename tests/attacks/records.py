"""What an attacker claims to know of single pictures, and how much of it is right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tests.attacks.hospitals import Hospital

ENOUGH = 1 / 500  # of each probability: what a bin of the old histograms told
ROUGHLY = 0.25  # of each probability's log-odds, where merged histograms may still tell something


def log_odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    held = np.clip(probabilities, 1e-7, 1 - 1e-7)
    return np.log(held) - np.log1p(-held)


@dataclass(frozen=True)
class Records:
    """One line for each picture: what a hospital's own table of predictions holds.

    Attributes:
        labels: the true class, `(records,)`.
        answers: the class answered, `(records,)`.
        probabilities: `(records, classes)`.
    """

    labels: NDArray[np.int64]
    answers: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, *hospitals: Hospital) -> "Records":
        """The true records of some hospitals' pictures."""
        rows = np.concatenate([each.probabilities for each in hospitals])
        return cls(np.concatenate([each.labels for each in hospitals]), rows.argmax(axis=1), rows)


def recovered(claimed: Records, truth: Records, *, roughly: bool = False, of_true_class: bool = False) -> int:
    """How many pictures the claimed records name, each claim standing for one picture at most.

    A claim fits a picture if true class, answer and every class's probability do, the latter to 1/500; or,
    `roughly`, to 0.25 in log-odds; or `of_true_class`, if the true class and its probability do.
    """
    assert len(claimed) <= len(truth), "an attacker may not claim more pictures than there are"
    if not len(claimed):
        return 0
    same = claimed.labels[:, None] == truth.labels
    guess, real = claimed.probabilities, truth.probabilities
    if of_true_class:
        guess, real = (of.probabilities[np.arange(len(of)), of.labels, None] for of in (claimed, truth))
    else:
        same &= claimed.answers[:, None] == truth.answers
    if roughly:
        guess, real = log_odds(guess), log_odds(real)
    apart = np.abs(guess[:, None] - real).max(axis=-1)
    return matched(same & (apart <= (ROUGHLY if roughly else ENOUGH) + 1e-9))


def matched(fits: NDArray[np.bool_]) -> int:
    """How many pairs there are at most of a claim and what it fits, `(claims, pictures)`."""
    return int(fits[linear_sum_assignment(fits, maximize=True)].sum())
