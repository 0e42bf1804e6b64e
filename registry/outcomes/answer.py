"""What is kept of an answer, to be judged by its outcome later: no picture, and of a person a subgroup."""

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, get_args

import numpy as np

from registry.bundle.counts.score_bins import COARSE_BINS

Side = Literal["none", "below", "above"]
"""Of the working point, the side on which the probability of malignancy lies; none where there is none."""

Decided = Literal["report", "refer", "retake"]

SIDES: Final[tuple[Side, ...]] = get_args(Side)
DECISIONS: Final[tuple[Decided, ...]] = get_args(Decided)
UNKNOWN: Final = "unknown"
"""In place of a subgroup: no tone was declared, or one of no subgroup that the version was tested on."""

RANGES: Final = len(COARSE_BINS)
CELLS: Final = len(SIDES) * len(DECISIONS) * RANGES
"""How many cells answers are counted in: by side, decision, and range of the probability of malignancy."""


@dataclass(frozen=True)
class Answering:
    """A version that answers.

    Attributes:
        model: its model's name.
        version: its number there.
        made_for: the subgroup that it was made for.
        subgroup: the subgroup of those it answered, by the tone that was declared; `UNKNOWN` without one.
        pattern: of the case, such as it names itself; empty for a model of single pictures.
        labels: its codes, each with whether it is malignant.
    """

    model: str
    version: int
    made_for: str
    subgroup: str
    pattern: str
    labels: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Cell:
    """Where an answer is counted.

    Attributes:
        side: of the working point.
        decision: what was decided.
        malignancy: the range of the probability of malignancy, a bin of `COARSE_BINS`; 0 of a model without
            malignant classes.
    """

    side: Side
    decision: Decided
    malignancy: int

    @property
    def number(self) -> int:
        """The cell as it is stored, from 0 to `CELLS` - 1."""
        place = SIDES.index(self.side) * len(DECISIONS) + DECISIONS.index(self.decision)
        return place * RANGES + self.malignancy

    @classmethod
    def of(cls, number: int) -> "Cell":
        """The cell of a stored number."""
        place, malignancy = divmod(number, RANGES)
        side, decision = divmod(place, len(DECISIONS))
        return cls(SIDES[side], DECISIONS[decision], malignancy)


def cell_of(side: Side, decision: Decided, malignancy: float | None) -> Cell:
    """The cell of an answer with this probability of malignancy."""
    return Cell(side, decision, 0 if malignancy is None else int(COARSE_BINS.bin(np.array(malignancy))))


@dataclass(frozen=True)
class KeptAnswer:
    """What is kept of one answer.

    Attributes:
        id: of the diagnosis.
        day: on which it was answered, in UTC.
        answering: the version.
        key: the id of the API key that asked; None without keys.
        cell: where it is counted.
        label: the code that was answered.
        in_set: the codes of the prediction set.
    """

    id: str
    day: date
    answering: Answering
    key: str | None
    cell: Cell
    label: str
    in_set: frozenset[str]
