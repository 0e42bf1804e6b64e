"""The answers of one version to one subgroup, of all patterns together, with what became of the patients."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.exact import exact_limits
from registry.bundle.metrics.limits import Limits
from registry.field.strata import Strata
from registry.outcomes.answer import CELLS, Cell
from registry.outcomes.counts import FieldCounts

_CELLS = [Cell.of(number) for number in range(CELLS)]
_ABOVE = np.array([cell.side == "above" for cell in _CELLS])
_REPORTED = np.array([cell.decision == "report" for cell in _CELLS])
_NONE = np.array([cell.side == "none" for cell in _CELLS])

FLAGGED = np.array([False, False, True, True])
"""Which strata are above the working point: on either side one of reported answers, and one of others.

They do not depend on what was seen, or looking again would change what was seen before.
"""

STRATUM = 2 * _ABOVE + _REPORTED
"""The stratum of each cell, `(CELLS,)`."""


@dataclass(frozen=True)
class Seen:
    """Answers in strata, and the outcomes that are known, in the order in which they became so.

    Attributes:
        first: the day from which days are counted.
        answered: by day and stratum, `(days, strata)`.
        reported: answers that were reported and not referred.
        has_working_point: whether all answers lie on a side of a working point.
        answered_on: the day of each answer whose outcome is known, `(outcomes,)`.
        known_on: the day on which that became known.
        stratum: of each.
        malignant: whether the outcome is malignant.
        in_set: whether the prediction set held it.
    """

    first: date
    answered: NDArray[np.int64]
    reported: int
    has_working_point: bool
    answered_on: NDArray[np.int64]
    known_on: NDArray[np.int64]
    stratum: NDArray[np.int64]
    malignant: NDArray[np.bool_]
    in_set: NDArray[np.bool_]

    @property
    def strata(self) -> Strata:
        """The counts of all days together."""
        everybody = np.ones(len(self.stratum), dtype=np.bool_)
        counted = Strata.count(self.stratum, FLAGGED, everybody, self.malignant)
        return Strata(FLAGGED, self.answered.sum(axis=0), counted.confirmed, counted.malignant)


def by_subgroup(counts: Sequence[FieldCounts]) -> list[tuple[int, str, list[FieldCounts]]]:
    """Counts of all patterns together: each version and subgroup, as `field_counts` has them in order."""
    groups = groupby(counts, key=lambda one: (one.answering.version, one.answering.subgroup))
    return [(version, subgroup, list(those)) for (version, subgroup), those in groups]


def seen(counts: Sequence[FieldCounts]) -> Seen:
    """What was seen of one version and one subgroup; `counts` are of its patterns, at least one."""
    first = min(one.first for one in counts)
    shifts = [(one.first - first).days for one in counts]
    days = max(len(one.answered) + shift for one, shift in zip(counts, shifts, strict=True))
    answered = np.zeros((days, CELLS), dtype=np.int64)
    for one, shift in zip(counts, shifts, strict=True):
        answered[shift : shift + len(one.answered)] += one.answered
    shifted = list(zip(counts, shifts, strict=True))
    known_on = np.concatenate([one.known_on + shift for one, shift in shifted])
    order = np.argsort(known_on, kind="stable")
    cell = np.concatenate([one.cell for one in counts])[order]
    sides = [np.array([malignant for _, malignant in one.answering.labels]) for one in counts]
    malignant = np.concatenate([side[one.truth] for side, one in zip(sides, counts, strict=True)])[order]
    by_stratum = np.zeros((days, len(FLAGGED)), dtype=np.int64)
    for number in range(CELLS):
        by_stratum[:, STRATUM[number]] += answered[:, number]
    return Seen(
        first,
        by_stratum,
        int(answered[:, _REPORTED].sum()),
        not answered[:, _NONE].any(),
        np.concatenate([one.answered_on + shift for one, shift in shifted])[order],
        known_on[order],
        STRATUM[cell],
        malignant,
        np.concatenate([one.in_set for one in counts])[order],
    )


def coverage_of(in_set: NDArray[np.bool_]) -> Limits:
    """How often prediction sets held what it was; without outcomes nothing is known."""
    found = exact_limits(np.array(in_set.sum()), np.array(len(in_set)))
    return found if len(in_set) else Limits(np.array(np.nan), found.low, found.high)
