"""Outcomes as they stood when the last group of patients was whole: what figures for others are made of.

Whoever sees a figure each day sees what one outcome did to it, and who knows whose outcome came that day
knows what became of that patient. So figures that leave the database move by groups: the first ten patients
about whom something was said, in the order in which it was said, then the next ten. What was said of the
patients of an unfinished group counts for nothing yet, corrections and withdrawals of earlier outcomes
among it. When a group is whole depends on how many were told of alone, never on what was told.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

TOGETHER: Final = 10
"""Patients of a group; as many as `privacy.min_count` asks for by default in training."""


class Said(Protocol):
    """A row of the table of outcomes."""

    @property
    def id(self) -> str:
        """Of the answer that it is of."""
        ...

    @property
    def withdrawn(self) -> bool:
        """Whether it takes back what was said."""
        ...


One = TypeVar("One", bound=Said)


def settled(rows: Sequence[One], together: int = TOGETHER) -> list[One]:
    """The outcomes that stood when the last group was whole.

    Args:
        rows: all that was ever said, in the order in which it was, what was corrected since among it.
        together: patients of a group.
    """
    whole, group = 0, set[str]()
    for place, row in enumerate(rows, 1):
        group.add(row.id)
        if len(group) == together:
            whole, group = place, set()
    stands: dict[str, One] = {}
    for row in rows[:whole]:
        stands.pop(row.id, None)  # what was said last stands last
        stands[row.id] = row
    return [row for row in stands.values() if not row.withdrawn]
