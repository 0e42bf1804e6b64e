"""Metrics of the report with their 95 % intervals, from counts, and how numbers and cells are written.

Percentages have one decimal, areas and errors three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isnan
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counting import Block
from registry.bundle.counts.lesions import LesionSums
from registry.bundle.counts.score_bins import probability_text
from registry.bundle.labels import UNDECLARED, Label, malignant_classes
from registry.bundle.metrics import selective
from registry.bundle.metrics.fairness import fairness_limits
from registry.bundle.metrics.intervals import Limits, sample_of
from registry.bundle.metrics.summary import limits_of

Malignant = NDArray[np.bool_]
"""Which classes are malignant, `(classes,)`."""


@dataclass(frozen=True)
class Measure:
    """A measure that is shown per subgroup.

    Attributes:
        key: its name in `summary.json`.
        title: its name on the page.
        percent: whether it is a share, written in percent; else a number from 0 to 1.
        higher_is_better: in which direction it improves.
        meaning: one line for a reader who does not know it.
    """

    key: str
    title: str
    percent: bool
    higher_is_better: bool
    meaning: str


MEASURES = (
    Measure(
        "malignant_sensitivity",
        "Malignant sensitivity",
        True,
        True,
        "share of malignant pictures that are answered as malignant",
    ),
    Measure(
        "malignant_specificity",
        "Malignant specificity",
        True,
        True,
        "share of other pictures that are not answered as malignant",
    ),
    Measure(
        "malignancy_auroc",
        "AUROC, malignancy",
        False,
        True,
        "chance that a malignant lesion scores above one that is not; 0.5 is guessing",
    ),
    Measure(
        "balanced_accuracy",
        "Balanced accuracy",
        True,
        True,
        "mean recall over the classes present, so that rare diseases weigh as much as common ones",
    ),
    Measure("accuracy", "Accuracy", True, True, "share of pictures answered rightly"),
    Measure(
        "ece",
        "Calibration error",
        False,
        False,
        "ECE: mean distance between stated confidence and share of right answers",
    ),
    Measure("auroc", "AUROC", False, True, "mean over classes, one against the rest"),
    Measure(
        "aurc",
        "Area under risk-coverage",
        False,
        False,
        "mean error when the least confident pictures are referred first",
    ),
    Measure(
        "macro_precision",
        "Macro precision",
        True,
        True,
        "mean over classes of the share of right answers among those given",
    ),
    Measure("macro_f1", "Macro F1", True, True, "mean F1 over the classes present"),
    Measure(
        "specificity",
        "Specificity",
        True,
        True,
        "mean over classes of the share of other pictures that were not given this answer",
    ),
    Measure("auprc", "AUPRC", False, True, "average precision, mean over classes"),
)
"""In the order in which they are read."""

FIRST = 6
"""So many measures are shown at once; the others are folded away."""

BY_KEY = {measure.key: measure for measure in MEASURES}


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its 95 % interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, limits: Limits) -> "Estimate":
        """A single figure."""
        if isnan(limits.value):
            return cls(None)
        return cls(float(limits.value), float(limits.low), float(limits.high))

    @classmethod
    def in_summary(cls, row: Mapping[str, Any], key: str) -> "Estimate":
        """A figure of a row of figures as `summary.json` has them."""
        return cls(row.get(key), *((row.get("intervals") or {}).get(key) or (None, None)))

    @classmethod
    def of_sums(cls, sums: LesionSums) -> "Estimate":
        """A share of pictures."""
        return cls(selective.mean_of(sums), *(selective.share_interval(sums) or (None, None)))


def measures_of(labels: Sequence[Label]) -> tuple[Measure, ...]:
    """The measures of a job with these classes, none of them twice.

    Of two classes one of which is malignant, AUROC is that of malignancy.
    """
    twice = auroc_is_of_malignancy(labels)
    return tuple(measure for measure in MEASURES if not (twice and measure.key == "auroc"))


def auroc_is_of_malignancy(labels: Sequence[Label]) -> bool:
    """Whether AUROC, of either class and in the mean, is that of malignancy: one of two is malignant."""
    malignant = malignant_classes(labels)
    return len(labels) == 2 and bool(malignant.any()) and not malignant.all()


def estimate(key: str, block: Block, malignant: Malignant | None = None) -> Estimate:
    """A figure of one subgroup by its name in `summary.json`, with the interval that it has there.

    Args:
        key: its name.
        block: the subgroup's counts.
        malignant: which classes are malignant, `(classes,)`; for malignant sensitivity and specificity.
    """
    return Estimate.of(limits_of(key, sample_of(block), malignant))


def sides(block: Block, malignant: Malignant) -> tuple[int, int]:
    """Malignant pictures and others."""
    of_class = block.point.confusion.sum(axis=-1)
    return int(of_class[malignant].sum()), int(of_class[~malignant].sum())


def estimate_over(key: str, blocks: Mapping[str, Block]) -> Estimate:
    """A figure that compares subgroups, such as the spread, likewise."""
    found = fairness_limits({name: sample_of(block) for name, block in blocks.items()})
    return Estimate.of(found[key]) if key in found else Estimate(None)


def total(blocks: Mapping[str, Block]) -> Block:
    """The counts of all pictures together, those of undeclared subgroup included."""
    return reduce(add, blocks.values())


def compared(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """The subgroups that fairness compares: declared, and with pictures."""
    return {name: block for name, block in blocks.items() if name != UNDECLARED and int(block.point.n)}


def present(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """The subgroups that have pictures, declared or not."""
    return {name: block for name, block in blocks.items() if int(block.point.n)}


ALL = "all pictures"


def with_all(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """The subgroups that have pictures, and all pictures together."""
    return {**present(blocks), ALL: total(blocks)}


Unit = Literal["percent", "ratio", "points"]

ABSENT = "–"
"""Stands where a figure is not defined, such as a recall without pictures of the class."""


_UNITS: Mapping[Unit, str] = {"percent": "\u202f%", "ratio": "", "points": "\u202fpts"}  # never wrapped


def number(value: float | None, unit: Unit = "ratio") -> str:
    """A figure as text: 0.742 as `74.2 %` (percent), `0.742` (ratio) or `74.2 pts` (points, differences)."""
    if value is None:
        return ABSENT
    written = f"{value:.3f}" if unit == "ratio" else f"{100 * value:.1f}"
    return written.replace("-", "−") + _UNITS[unit]


def threshold(probability: float) -> str:
    """A threshold in percent, near 0 and 1 in as many decimals as it takes: 0.99988 as `99.988 %`."""
    places = len(probability_text(probability).partition(".")[2])
    return f"{100 * probability:.{places - 2}f}{_UNITS['percent']}"


def interval(estimate: Estimate, unit: Unit = "ratio") -> str:
    """The ends of an interval without their unit, `68.0 to 80.1`; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (number(end, unit).removesuffix(_UNITS[unit]) for end in (estimate.low, estimate.high))
    return f"{low} to {high}"


def with_interval(estimate: Estimate, unit: Unit = "ratio") -> str:
    """A figure and its interval in one line, `74.2 % (68.0 to 80.1)`."""
    ends = interval(estimate, unit)
    return f"{number(estimate.value, unit)} ({ends})" if ends else number(estimate.value, unit)


def whole(value: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def pictures(value: int) -> str:
    """A count of pictures in words."""
    return f"{whole(value)} picture{'' if value == 1 else 's'}"


def size(num_bytes: float) -> str:
    """Bytes in the largest decimal unit that leaves at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            written = f"{num_bytes:.0f}" if unit == "B" else f"{num_bytes:.1f}"
            return f"{written}\u202f{unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f}\u202fTB"


def duration(seconds: float) -> str:
    """A duration in words, such as `3 min`."""
    if seconds < 120:
        return f"{seconds:.1f}\u202fs"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f}\u202fmin" if minutes < 120 else f"{hours:.1f}\u202fh"


def listed(items: list[str] | tuple[str, ...]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


@dataclass(frozen=True)
class Cell:
    """One cell: its text and, smaller, a note; `alert` where a stage made it worse."""

    text: str
    note: str = ""
    alert: bool = False


@dataclass(frozen=True)
class Row:
    """One row: its header and its cells."""

    header: str
    cells: tuple[Cell, ...]
    is_total: bool = False


@dataclass(frozen=True)
class Table:
    """A table; `columns` starts with the title of the row headers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def cell(estimate: Estimate, unit: Unit = "ratio") -> Cell:
    """A figure with its interval as the note."""
    return Cell(number(estimate.value, unit), interval(estimate, unit))


def texts(*values: str) -> tuple[Cell, ...]:
    """Plain cells."""
    return tuple(Cell(value) for value in values)


def label_name(label: Label, *, malignancy: bool = False) -> str:
    """`Melanoma (MEL)`, with `malignancy` `Melanoma (MEL, malignant)`; without repetition."""
    beside = [label.code]
    if malignancy and label.malignancy != "unknown":
        beside.append(label.malignancy)
    news = [word for word in dict.fromkeys(beside) if word.casefold() != label.name.casefold()]
    return f"{label.name} ({', '.join(news)})" if news else label.name
