"""Intervals that are narrower than any pictures make them.

How alike pictures of a lesion are is not told, and only widens an interval. With every picture a lesion of
its own it is the narrowest: an interval that does not hold that one was not made by these counts.
"""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.design_effect import DesignEffect
from registry.bundle.metrics.estimate import limits_of
from registry.bundle.metrics.exact import clopper_pearson
from registry.bundle.metrics.sample import Sample
from registry.bundle.recount.classes import Answers
from registry.bundle.recount.possible import denominators
from registry.bundle.recount.problem import LOOSE, Findings, Row, said

OF_ROWS = ("balanced_accuracy",)
"""Figures whose interval depends on the sums of rows and the diagonal alone."""

_MEANS = frozenset({"set_size"})


def check_intervals(row: Row, findings: Findings) -> None:
    """Checks the intervals of shares of so many pictures."""
    for name, n in denominators(row):
        found, told = row.times(name, n), row.interval(name)
        if name not in _MEANS and found is not None and told is not None and n:
            _holds(row, name, told, clopper_pearson(found, n), findings)


def check_intervals_of_all(
    row: Row, answers: Answers, malignant: NDArray[np.bool_], findings: Findings
) -> None:
    """Checks the intervals of means over classes that the sums of the matrix give."""
    classes = len(answers.pictures)
    alone = DesignEffect(np.array(0.0), np.ones(classes))
    names = OF_ROWS if classes > 2 else (*OF_ROWS, "macro_precision", "macro_f1", "specificity")
    for name in names:
        told = row.interval(name)
        if told is not None and row.number(name) is not None:
            ends = limits_of(name, Sample(answers.matrix, alone), malignant).ends()
            if ends is not None:
                _holds(row, name, told, (ends[0], ends[1]), findings)


def _holds(
    row: Row, name: str, told: tuple[float, float], least: tuple[float, float], findings: Findings
) -> None:
    if told[0] > least[0] + LOOSE or told[1] < least[1] - LOOSE:
        findings.refuse(
            row.at(f"intervals.{name}"),
            told,
            f"so many pictures give {said(least)} at the narrowest, each a lesion of its own",
        )
