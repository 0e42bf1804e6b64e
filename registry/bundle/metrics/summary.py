"""All figures of one evaluation as the `test` block of `summary.json`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Block, Counts
from registry.bundle.errors import CountsError
from registry.bundle.manifest.labels import Label, malignant_classes
from registry.bundle.metrics import calibration, classification, fairness, malignancy, selective
from registry.bundle.metrics.differences import differences
from registry.bundle.metrics.estimate import figures_and_intervals, number
from registry.bundle.metrics.fairness_limits import fairness_limits
from registry.bundle.metrics.intersections import intersections
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import sample_of

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

MALIGNANCY: Mapping[str, Callable[..., Figure]] = {
    "malignant_sensitivity": malignancy.malignant_sensitivity,
    "malignant_specificity": malignancy.malignant_specificity,
}

SUBGROUP_FIGURES = ("accuracy", "balanced_accuracy", "auroc", "malignancy_auroc", "ece", "mce", *MALIGNANCY)

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
    details: Mapping[str, Mapping[str, Any]] | None = None,
    traits: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Every figure of one evaluation, ready for JSON: None where undefined, never nan.

    Args:
        blocks: the added-up counts of each subgroup; whatever is in none of them (`undeclared`) is
            one more name, which counts in the total.
        labels: the classes, for the figures per class.
        fair_over: the subgroups that fairness compares.
        details: more to say of a subgroup (`coverage`, `epoch`), put beside its figures; its `intervals` join
            theirs.
        traits: the columns whose intersections with subgroups were asked for, and their values as far as they
            are known beforehand.

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
    compared = {name: present[name] for name in fair_over if name in present}
    malignant = malignant_classes(labels)
    summary = {
        **_figures(total, [*FIGURES, *MALIGNANCY], malignant),
        "by_class": _by_class(total.point, labels),
        "fairness": _fairness(compared),
        "differences": differences(compared),
        "by_subgroup": {
            name: _with(_figures(block, SUBGROUP_FIGURES, malignant), (details or {}).get(name, {}))
            for name, block in present.items()
        },
        "absent": [name for name in dict.fromkeys([*fair_over, *blocks]) if name not in present],
    }
    if traits:
        named = list(dict.fromkeys([*fair_over, *present]))
        summary["intersections"] = intersections(present, named, malignant, traits)
    return summary


def _figures(block: Block, names: Sequence[str], malignant: NDArray[np.bool_]) -> dict[str, Any]:
    known: Mapping[str, Callable[[Counts], Figure]] = {
        **FIGURES,
        **{name: partial(figure, malignant=malignant) for name, figure in MALIGNANCY.items()},
    }
    of_class = block.point.confusion.sum(axis=-1)
    sides = {"n_malignant": int(of_class[malignant].sum()), "n_other": int(of_class[~malignant].sum())}
    return sides | figures_and_intervals(sample_of(block), {name: known[name] for name in names}, malignant)


def _with(figures: dict[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    intervals = {**figures["intervals"], **details.get("intervals", {})}
    return {**figures, **details, "intervals": intervals}


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
        label.code: {"n": int(support[k])} | {name: number(values[k]) for name, values in figures.items()}
        for k, label in enumerate(labels)
    }


def _fairness(blocks: Mapping[str, Block]) -> dict[str, Any]:
    points = {name: block.point for name, block in blocks.items()}
    figures: dict[str, Any] = {name: number(figure(points)) for name, figure in FAIRNESS.items()}
    found = fairness_limits({name: sample_of(block) for name, block in blocks.items()})
    figures["intervals"] = (
        {name: found[name].ends() for name in FAIRNESS} if found else dict.fromkeys(FAIRNESS)
    )
    return figures
