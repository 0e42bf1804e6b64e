"""What a recount finds, and how numbers are read and compared for it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ROUNDING: Final = 1e-9
"""How far a figure may lie from the one that is computed again: machines round the last digits apart."""

LOOSE: Final = 1e-6
"""As `ROUNDING`, of ends of intervals, which are found by iteration."""


@dataclass(frozen=True)
class Problem:
    """A figure that cannot be right.

    Attributes:
        figure: where it stands in the manifest, such as `metrics.by_subgroup.dark.accuracy`.
        says: what it is there.
        gives: what the counts give, or what is possible, as words.
    """

    figure: str
    says: str
    gives: str

    def __str__(self) -> str:
        return f"{self.figure} says {self.says}; {self.gives}"


@dataclass(frozen=True)
class Recounted:
    """What a recount came to.

    Attributes:
        problems: the figures that cannot be right.
        sources: what figures were computed again from: `classes`, `histograms`, `subgroups`; empty where
            the bundle holds nothing of the kind, so that nothing could be computed again.
    """

    problems: tuple[Problem, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """The figures of all test pictures, or of a part of them, as a manifest holds them.

    Attributes:
        place: where they stand, such as `metrics.by_subgroup.dark`.
        figures: what stands there.
    """

    place: str
    figures: Mapping[str, Any]

    def at(self, name: str) -> str:
        """Where one of its figures stands."""
        return f"{self.place}.{name}"

    def number(self, name: str) -> float | None:
        """A figure; None where it is not told, or is no number."""
        return number(self.figures.get(name))

    def whole(self, name: str) -> int | None:
        """A count; None where it is not told, or is none."""
        return whole(self.figures.get(name))

    def times(self, name: str, n: int | None) -> int | None:
        """How many of n pictures a share is; None where either is not told."""
        share = self.number(name)
        return None if share is None or n is None else round(share * n)

    def interval(self, name: str) -> tuple[float, float] | None:
        """The interval of a figure; None where it is not told, or is none."""
        intervals = self.figures.get("intervals")
        return ends(intervals.get(name)) if isinstance(intervals, Mapping) else None


@dataclass
class Findings:
    """Collects problems."""

    problems: list[Problem] = field(default_factory=list)

    def refuse(self, figure: str, says: object, gives: str) -> None:
        """Notes a figure that cannot be right."""
        self.problems.append(Problem(figure, said(says), gives))

    def same(
        self, figure: str, says: float | None, gives: float | None, of: str, within: float = ROUNDING
    ) -> None:
        """Notes a figure that is another than what is computed again; one that is not told is no lie."""
        if says is None:
            return
        if gives is None or math.isnan(gives):
            self.refuse(figure, says, f"{of} leave it undefined")
        elif abs(says - gives) > within:
            self.refuse(figure, says, f"{of} give {said(gives)}")


def number(value: object) -> float | None:
    """A finite number; None of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def whole(value: object) -> int | None:
    """A whole number from 0 on; None of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def ends(value: object) -> tuple[float, float] | None:
    """Both ends of an interval; None of anything else."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None else (low, high)


def rows(place: str, found: object) -> Iterator[tuple[str, Row]]:
    """Rows of figures by name."""
    if isinstance(found, Mapping):
        for name, figures in found.items():
            if isinstance(figures, Mapping):
                yield name, Row(f"{place}.{name}", figures)


def said(value: object) -> str:
    """A value as a sentence has it: numbers to four places, others short."""
    if isinstance(value, tuple | list):
        return " to ".join(said(each) for each in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
