"""Figures that no pictures have: shares beyond 0 and 1, parts of a picture, values outside intervals.

What a recount finds, and how numbers are read and compared for it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from registry.bundle.metrics.patient import COUNTS
from registry.bundle.metrics.summary import FAIRNESS, FIGURES, MALIGNANCY

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


OF_ALL = ("accuracy", "weighted_recall", "coverage", "reported")
OF_MALIGNANT = ("malignant_sensitivity", "sensitivity_at_threshold")
OF_OTHERS = ("malignant_specificity", "specificity_at_threshold")
BY_CLASS = ("recall", "precision", "f1", "specificity", "auroc", "auprc")
SHARES = frozenset(
    [*FIGURES, *MALIGNANCY, *FAIRNESS, *BY_CLASS, *OF_ALL, *OF_MALIGNANT, *OF_OTHERS, "reported_risk"]
)
"""Figures from 0 to 1."""

COUNTED = frozenset([*COUNTS])
_SIZE = "set_size"
_DISTANCES = frozenset([*FAIRNESS, "ece", "mce"])
"""Figures whose upper limits are of drawn noise, which few pictures may lead beyond 1."""

_AREAS, _GUESSING = ("auroc", "malignancy_auroc"), 0.5


def check_possible(row: Row, classes: int, findings: Findings) -> None:
    """Checks one row of figures by itself.

    Args:
        row: of all pictures, of a subgroup, of a class, or of fairness.
        classes: how many labels there are.
        findings: where problems are noted.
    """
    for name, value in row.figures.items():
        if name in COUNTED and value is not None and whole(value) is None:
            findings.refuse(row.at(name), value, "a number of pictures is whole, and 0 or more")
        elif name in SHARES or name == _SIZE:
            _in_range(row, name, value, float(classes) if name == _SIZE else 1.0, findings)
    _sides(row, findings)
    for name, n in denominators(row):
        _whole_times(row, name, n, findings)
    _intervals(row, findings)


def denominators(row: Row) -> Iterator[tuple[str, int]]:
    """The shares of a row that are so many of so many pictures, and of how many."""
    n, malignant, other = (row.whole(name) for name in COUNTS)
    reported = row.times("reported", n)
    of: list[tuple[tuple[str, ...], int | None]] = [
        ((*OF_ALL, _SIZE), n),
        (OF_MALIGNANT, malignant),
        (OF_OTHERS, other),
        (("reported_risk",), reported),
    ]
    for names, count in of:
        for name in names:
            if count is not None and name in row.figures:
                yield name, count


def _in_range(row: Row, name: str, value: object, most: float, findings: Findings) -> None:
    if value is None:
        return
    known = number(value)
    if known is None:
        findings.refuse(row.at(name), value, "a figure is a number, or null where it is undefined")
    elif not -LOOSE <= known <= most + LOOSE:
        findings.refuse(row.at(name), known, f"it is from 0 to {said(most)}")


def _sides(row: Row, findings: Findings) -> None:
    n, malignant, other = (row.whole(name) for name in COUNTS)
    if n is None or malignant is None:
        return
    if malignant > n:
        findings.refuse(row.at("n_malignant"), malignant, f"there are {n} pictures in all")
    elif other is not None and malignant + other != n:
        findings.refuse(
            row.at("n"), n, f"{malignant} malignant pictures and {other} others give {malignant + other}"
        )


def _whole_times(row: Row, name: str, n: int, findings: Findings) -> None:
    share = row.number(name)
    if share is None:
        return
    if not n:
        findings.refuse(row.at(name), share, "it is of no picture, and then undefined (null)")
    elif abs(share * n - round(share * n)) > LOOSE * max(n, 1):
        findings.refuse(
            row.at(name), share, f"it is a share of {n} pictures, and {share * n:.4g} of them is not whole"
        )


def _intervals(row: Row, findings: Findings) -> None:
    intervals = row.figures.get("intervals")
    for name, told in intervals.items() if isinstance(intervals, Mapping) else ():
        if told is None:
            continue
        place = row.at(f"intervals.{name}")
        found, value = ends(told), row.number(name)
        if found is None or found[0] > found[1] + LOOSE:
            findings.refuse(place, told, "an interval is its lower and its upper end")
            continue
        if name in SHARES and not (found[0] >= -LOOSE and (found[1] <= 1 + LOOSE or name in _DISTANCES)):
            findings.refuse(place, found, "it is within 0 and 1")
        if value is not None and not found[0] - LOOSE <= value <= found[1] + LOOSE:
            findings.refuse(row.at(name), value, f"its own interval is {said(found)}")


def check_differences(found: Any, place: str, findings: Findings) -> None:
    """Checks the differences between pairs of subgroups by themselves."""
    for at, each in enumerate(found if isinstance(found, list) else ()):
        row = Row(f"{place}.{at}", each if isinstance(each, Mapping) else {})
        value, p, adjusted = (row.number(name) for name in ("value", "p", "p_adjusted"))
        interval = ends(row.figures.get("interval"))
        if value is not None and not -1 - LOOSE <= value <= 1 + LOOSE:
            findings.refuse(row.at("value"), value, "a difference of two shares is from -1 to 1")
        if value is not None and interval and not interval[0] - LOOSE <= value <= interval[1] + LOOSE:
            findings.refuse(row.at("value"), value, f"its own interval is {said(interval)}")
        if p is not None and not -LOOSE <= p <= 1 + LOOSE:
            findings.refuse(row.at("p"), p, "a p-value is from 0 to 1")
        if p is not None and adjusted is not None and not p - LOOSE <= adjusted <= 1 + LOOSE:
            findings.refuse(
                row.at("p_adjusted"), adjusted, f"corrected for several pairs it is at least {said(p)}"
            )
