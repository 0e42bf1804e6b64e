"""Rows of figures and how they are written: numbers with 95 % intervals, cells of tables, measures.

A row has figures by name with their `intervals`, as `summary.json` has them. Percentages have one decimal,
areas and errors three.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple

from registry.bundle.counting import Block
from registry.bundle.labels import UNDECLARED, Label, malignant_classes
from registry.bundle.metrics import selective
from registry.bundle.metrics.patient import UNKNOWN, Told, told
from registry.bundle.metrics.summary import summarise
from registry.bundle.score_bins import LOGIT_BINS, probability_text
from registry.views.tables import Cell

Figures = Mapping[str, Any]
Blocks = Mapping[str, Block]
"""Test counts by subgroup."""

Unit = Literal["percent", "ratio", "points"]

ALL = "all pictures"
ABSENT = "–"
"""Stands where a figure is not defined, such as a recall without pictures of the class."""

_UNITS: Mapping[Unit, str] = {"percent": "\u202f%", "ratio": "", "points": "\u202fpts"}  # never wrapped


class Measure(NamedTuple):
    """A measure that is shown per subgroup: its name on the page, and one line for who does not know it."""

    title: str
    meaning: str


MEASURES = {
    "malignant_sensitivity": Measure(
        "Malignant sensitivity", "share of malignant pictures that are answered as malignant"
    ),
    "malignant_specificity": Measure(
        "Malignant specificity", "share of other pictures that are not answered as malignant"
    ),
    "malignancy_auroc": Measure(
        "AUROC, malignancy", "chance that a malignant lesion scores above one that is not; 0.5 is guessing"
    ),
    "balanced_accuracy": Measure(
        "Balanced accuracy",
        "mean recall over the classes present, so that rare diseases weigh as much as common ones",
    ),
    "accuracy": Measure("Accuracy", "share of pictures answered rightly"),
    "ece": Measure(
        "Calibration error", "ECE: mean distance between stated confidence and share of right answers"
    ),
    "auroc": Measure("AUROC", "mean over classes, one against the rest"),
    "aurc": Measure(
        "Area under risk-coverage", "mean error when the least confident pictures are referred first"
    ),
    "macro_precision": Measure(
        "Macro precision", "mean over classes of the share of right answers among those given"
    ),
    "macro_f1": Measure("Macro F1", "mean F1 over the classes present"),
    "specificity": Measure(
        "Specificity", "mean over classes of the share of other pictures that were not given this answer"
    ),
    "auprc": Measure("AUPRC", "average precision, mean over classes"),
}
"""By their names in `summary.json`, in the order in which they are read."""

FIRST = 6
"""So many measures are shown at once; the others are folded away."""

ERRORS = frozenset({"ece", "mce", "aurc"})
"""Figures of which lower ones are better."""

_RATIOS = ERRORS | {"malignancy_auroc", "auroc", "auprc"}


def unit_of(key: str) -> Unit:
    """Whether a measure is a share, written in percent, or another number from 0 to 1."""
    return "ratio" if key in _RATIOS else "percent"


def measures_of(labels: Sequence[Label]) -> list[str]:
    """The measures of a job with these classes, none of them twice."""
    return [key for key in MEASURES if key != "auroc" or not auroc_is_of_malignancy(labels)]


def has_both_kinds(labels: Sequence[Label]) -> bool:
    """Whether some classes are malignant and others not."""
    malignant = malignant_classes(labels)
    return bool(malignant.any()) and not malignant.all()


def auroc_is_of_malignancy(labels: Sequence[Label]) -> bool:
    """Whether AUROC, of either class and in the mean, is that of malignancy: one of two is malignant."""
    return len(labels) == 2 and has_both_kinds(labels)


def figures_of(blocks: Iterable[Block], labels: Sequence[Label]) -> Figures:
    """Every figure of some counts together, with what thresholds do to them where that was counted."""
    block = reduce(add, blocks)
    found = summarise({ALL: block}, labels, ())
    if block.decisions is None:
        return found
    decided = selective.decided(block.decisions, block.kinds)
    return {**found, **decided, "intervals": {**found["intervals"], **decided["intervals"]}}


def compared(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the subgroups that fairness compares, which are declared."""
    return {name: row for name, row in rows.items() if name not in (UNDECLARED, ALL)}


def present(blocks: Blocks) -> dict[str, Block]:
    """The subgroups that have pictures, declared or not."""
    return {name: block for name, block in blocks.items() if int(block.point.n)}


def number(value: float | None, unit: Unit = "ratio") -> str:
    """A figure as text: 0.742 as `74.2 %` (percent), `0.742` (ratio) or `74.2 pts` (points, differences)."""
    if value is None:
        return ABSENT
    written = f"{value:.3f}" if unit == "ratio" else f"{100 * value:.1f}"
    return written.replace("-", "−") + _UNITS[unit]


def threshold(score_bin: int) -> str:
    """The lower edge of a score bin in percent, near 0 and 1 in as many decimals as it takes: `99.988 %`."""
    probability = LOGIT_BINS.lower(score_bin)
    places = len(probability_text(probability).partition(".")[2])
    return f"{100 * probability:.{places - 2}f}{_UNITS['percent']}"


def interval(ends: Sequence[float] | None, unit: Unit = "ratio") -> str:
    """The ends of an interval without their unit, `68.0 to 80.1`; empty where there is none."""
    return " to ".join(number(end, unit).removesuffix(_UNITS[unit]) for end in ends or ())


def with_interval(found: Told, unit: Unit = "ratio") -> str:
    """A figure and its interval in one line, `74.2 % (68.0 to 80.1)`, or why there is none."""
    if found.value is None:
        return _absent(found)
    ends = interval(found.interval, unit)
    return f"{number(found.value, unit)} ({ends})" if ends else number(found.value, unit)


def cell(row: Figures, key: str, unit: Unit = "ratio") -> Cell:
    """A figure of a row with its interval as the note, or why there is none."""
    found = told(row, key)
    if found.value is None:
        return Cell(_absent(found))
    return Cell(number(found.value, unit), interval(found.interval, unit))


def cells(row: Figures, keys: Iterable[str], unit: Unit | None = "ratio") -> list[Cell]:
    """Several figures of a row; without a unit, each in that of the measure."""
    return [cell(row, key, unit or unit_of(key)) for key in keys]


def _absent(found: Told) -> str:
    return ABSENT if found.words == UNKNOWN else found.words


def whole(value: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def share(x: int, n: int) -> str:
    """`3 of 102`."""
    return f"{whole(x)} of {whole(n)}"


def pictures(value: int) -> str:
    """A count of pictures in words."""
    return f"{whole(value)} picture{'' if value == 1 else 's'}"


def sides(row: Figures) -> str:
    """`21 malignant, 79 other`."""
    return f"{whole(row['n_malignant'])} malignant, {whole(row['n_other'])} other"


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


def listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def label_name(label: Label, *, malignancy: bool = False) -> str:
    """`Melanoma (MEL)`, with `malignancy` `Melanoma (MEL, malignant)`; without repetition."""
    beside = [label.code]
    if malignancy and label.malignancy != "unknown":
        beside.append(label.malignancy)
    news = [word for word in dict.fromkeys(beside) if word.casefold() != label.name.casefold()]
    return f"{label.name} ({', '.join(news)})" if news else label.name
