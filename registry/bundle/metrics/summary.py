"""All figures of one evaluation as the `test` block of `summary.json`."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from registry.bundle.counts import Block, Counts
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label
from registry.bundle.metrics import calibration, classification, fairness, selective
from registry.bundle.metrics.interval import interval
from registry.bundle.metrics.ratio import Figure

FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
    "accuracy": classification.accuracy,
    "balanced_accuracy": classification.balanced_accuracy,
    "macro_precision": classification.macro_precision,
    "macro_f1": classification.macro_f1,
    "weighted_precision": classification.weighted_precision,
    "weighted_recall": classification.weighted_recall,
    "weighted_f1": classification.weighted_f1,
    "specificity": classification.specificity,
    "auroc": classification.auroc,
    "auprc": classification.auprc,
    "malignancy_auroc": classification.malignancy_auroc,
    "ece": calibration.ece,
    "mce": calibration.mce,
    "aurc": selective.aurc,
}

SUBGROUP_FIGURES = ("accuracy", "balanced_accuracy", "auroc", "malignancy_auroc", "ece")

FAIRNESS: Mapping[str, Callable[[Mapping[str, Counts]], Figure]] = {
    "variance": fairness.variance,
    "gap": fairness.gap,
    "worst": fairness.worst,
    "spread": fairness.spread,
    "spread_standardised": fairness.spread_standardised,
}


def summarise(
    blocks: Mapping[str, Block],
    labels: Sequence[Label],
    fair_over: Sequence[str],
    details: Mapping[str, Mapping[str, float | int | None]] | None = None,
) -> dict[str, Any]:
    """Every figure of one evaluation, ready for JSON: None where undefined, never nan.

    Args:
        blocks: the added-up counts of each subgroup; whatever is in none of them (`undeclared`) is
            one more name, which counts in the total.
        labels: the classes, for the figures per class.
        fair_over: the subgroups that fairness compares.
        details: more to say of a subgroup (`coverage`, `epoch`), put beside its figures.

    Raises:
        CountsError: no block, blocks that do not add up, or labels that are not theirs.
    """
    if not blocks:
        raise CountsError("there is nothing to summarise: no subgroup sent its counts")
    total = reduce(add, blocks.values())
    if total.point.num_classes != len(labels):
        raise CountsError(
            f"the counts are of {total.point.num_classes} classes; {len(labels)} labels were given"
        )
    present = {name: block for name, block in blocks.items() if block.point.n > 0}
    return {
        **_figures(total, tuple(FIGURES)),
        "by_class": _by_class(total.point, labels),
        "fairness": _fairness({name: present[name] for name in fair_over if name in present}),
        "by_subgroup": {
            name: {**_figures(block, SUBGROUP_FIGURES), **(details or {}).get(name, {})}
            for name, block in present.items()
        },
        "absent": [name for name in dict.fromkeys([*fair_over, *blocks]) if name not in present],
    }


def _number(value: Figure) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(replicates: Figure) -> list[float] | None:
    ends = interval(replicates)
    return None if ends is None else list(ends)


def _figures(block: Block, names: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {"n": int(block.point.n)}
    figures |= {name: _number(FIGURES[name](block.point)) for name in names}
    if block.replicates is not None:
        figures["intervals"] = {name: _interval(FIGURES[name](block.replicates)) for name in names}
    return figures


def _by_class(counts: Counts, labels: Sequence[Label]) -> dict[str, Any]:
    figures = {
        "recall": classification.recalls(counts),
        "precision": classification.precisions(counts),
        "f1": classification.f1_scores(counts),
        "specificity": classification.specificities(counts),
        "auroc": classification.aurocs(counts),
        "auprc": classification.auprcs(counts),
    }
    support = counts.confusion.sum(axis=-1)
    return {
        label.code: {"n": int(support[k])} | {name: _number(values[k]) for name, values in figures.items()}
        for k, label in enumerate(labels)
    }


def _fairness(blocks: Mapping[str, Block]) -> dict[str, Any]:
    points = {name: block.point for name, block in blocks.items()}
    figures: dict[str, Any] = {name: _number(figure(points)) for name, figure in FAIRNESS.items()}
    replicates = {name: block.replicates for name, block in blocks.items() if block.replicates is not None}
    if replicates:
        figures["intervals"] = {name: _interval(figure(replicates)) for name, figure in FAIRNESS.items()}
    return figures
