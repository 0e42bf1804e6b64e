"""The measures of the report with their 95 % bootstrap intervals, computed from counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import isnan
from operator import add

from registry.bundle.counts.count import Block, Counts
from registry.bundle.manifest.schema import UNDECLARED
from registry.bundle.metrics import calibration, classification, selective
from registry.bundle.metrics.estimate import ends
from registry.bundle.metrics.ratio import Figure, Tally
from registry.bundle.metrics.summary import FAIRNESS, FIGURES


@dataclass(frozen=True)
class Measure:
    """A measure that is shown per subgroup.

    Attributes:
        key: its name in `summary.json`.
        title: its name on the page.
        figure: what computes it from counts.
        percent: whether it is a share, written in percent; else a number from 0 to 1.
        higher_is_better: in which direction it improves.
        meaning: one line for a reader who does not know it.
    """

    key: str
    title: str
    figure: Callable[[Counts], Figure]
    percent: bool
    higher_is_better: bool
    meaning: str


MEASURES = (
    Measure(
        "accuracy", "Accuracy", classification.accuracy, True, True, "share of pictures answered rightly"
    ),
    Measure(
        "balanced_accuracy",
        "Balanced accuracy",
        classification.balanced_accuracy,
        True,
        True,
        "mean recall over the classes present, so that rare diseases weigh as much as common ones",
    ),
    Measure("auroc", "AUROC", classification.auroc, False, True, "mean over classes, one against the rest"),
    Measure(
        "malignancy_auroc",
        "AUROC, malignancy",
        classification.malignancy_auroc,
        False,
        True,
        "chance that a malignant lesion scores above one that is not; 0.5 is guessing",
    ),
    Measure(
        "ece",
        "Calibration error",
        calibration.ece,
        False,
        False,
        "ECE: mean distance between stated confidence and share of right answers",
    ),
    Measure(
        "aurc",
        "Area under risk-coverage",
        selective.aurc,
        False,
        False,
        "mean error when the least confident pictures are referred first",
    ),
    Measure(
        "macro_precision",
        "Macro precision",
        classification.macro_precision,
        True,
        True,
        "mean over classes of the share of right answers among those given",
    ),
    Measure("macro_f1", "Macro F1", classification.macro_f1, True, True, "mean F1 over the classes present"),
    Measure(
        "specificity",
        "Specificity",
        classification.specificity,
        True,
        True,
        "mean over classes of the share of other pictures that were not given this answer",
    ),
    Measure("auprc", "AUPRC", classification.auprc, False, True, "average precision, mean over classes"),
)

BY_KEY = {measure.key: measure for measure in MEASURES}

_TALLIES: Mapping[Callable[[Counts], Figure], Callable[[Counts], Tally]] = {
    classification.accuracy: classification.all_answers,
    classification.balanced_accuracy: classification.answers_by_class,
    classification.specificity: classification.other_answers_by_class,
}
"""How many of how many: the figures that are means of proportions."""

_NAMES: Mapping[Callable[..., Figure], str] = {
    **{figure: name for name, figure in FIGURES.items()},
    **{figure: name for name, figure in FAIRNESS.items()},
}
"""What a figure is called where its interval is made."""


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its 95 % interval; None where it is not defined or has no replicates."""

    value: float | None
    low: float | None = None
    high: float | None = None


def estimate(figure: Callable[[Counts], Figure], block: Block) -> Estimate:
    """The estimate of a measure on one subgroup."""
    replicates = None if block.replicates is None else figure(block.replicates)
    tally = _TALLIES.get(figure)
    return of_values(figure(block.point), replicates, figure, None if tally is None else tally(block.point))


def estimate_over(figure: Callable[[Mapping[str, Counts]], Figure], blocks: Mapping[str, Block]) -> Estimate:
    """The estimate of a measure that compares subgroups, such as the spread."""
    replicates = {name: block.replicates for name, block in blocks.items() if block.replicates is not None}
    value = figure({name: block.point for name, block in blocks.items()})
    return of_values(value, figure(replicates) if len(replicates) == len(blocks) else None, figure)


def of_values(
    value: Figure,
    replicates: Figure | None,
    figure: Callable[..., Figure] | None = None,
    proportions: Tally | None = None,
) -> Estimate:
    """A figure `()` and its replicates `(replicates,)` as an estimate, as `summary.json` has it.

    Args:
        value: the figure.
        replicates: the figure of each replicate.
        figure: what computes it, which says what noise does to it.
        proportions: how many of how many it is, for an interval where replicates tell too little.
    """
    if isnan(value):
        return Estimate(None)
    name = "" if figure is None else _NAMES.get(figure, "")
    return Estimate(float(value), *(ends(name, value, replicates, proportions) or (None, None)))


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
