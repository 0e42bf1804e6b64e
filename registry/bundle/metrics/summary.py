"""Every metric by its name in `summary.json`, and the summary of an evaluation: subgroups, cells, clients.

`METRICS`, `MALIGNANCY` and `BY_CLASS` say how each metric and its interval are computed:

| metric | limits |
| --- | --- |
| of right and wrong answers | exact, of effective numbers (`Moments`), by the variance of `Shares` |
| an area under a ROC, precision-recall or risk-coverage curve | likewise, by the variance of the area |
| a calibration error | of a distance (`calibration.Distance`) |
| a fairness metric | of a distance (`fairness.fairness_limits`) |
| a mean over clients | as of the metric; clients are independent |

`summarise` makes the `test` block of `summary.json`. An intersection of a subgroup and a trait of which
clients disclosed fewer than `FEWEST` pictures is unknown, and is shown as that and not as a number.

`over_clients` is of single clients, of their own models or of the global one. "The recall and precision
averaged over all devices are reported, and on each device, the recall and precision are averaged over all
classes" (Wu et al. 2022, Table I). "Mean (Median) ± Std. of different evaluation metrics" (Bdair et al. 2022,
Table 2), means over the clients of a community (Table 3) and, class by class, over clients (Tables 5 to 7).
Departures: the papers do not say which deviation and what of a class that a client lacks. Here it is that of
the population of clients, and a client without a class has no part in the means of that class.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.conclusions import Tree
from registry.bundle.counting import Block
from registry.bundle.counts import Confusion, Counts
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label, kinds_of, malignant_classes
from registry.bundle.metrics import calibration, classification, fairness, selective
from registry.bundle.metrics.calibration import Distance, mean_distance
from registry.bundle.metrics.classification import (
    ACCURACY,
    F1,
    PRECISIONS,
    RECALLS,
    SPECIFICITIES,
    Shares,
    by_pictures,
    each_share,
    mean_share,
)
from registry.bundle.metrics.intervals import (
    DesignEffect,
    Figure,
    Limits,
    Moments,
    Sample,
    mean_defined,
    sample_of,
)


@dataclass(frozen=True)
class Metric:
    """How a metric is computed.

    Attributes:
        value: from counts, or from a confusion matrix where that is enough.
        of_sample: what its limits follow from.
    """

    value: Callable[[Any], Figure]
    of_sample: Callable[[Sample[Any]], Moments | Distance]


def _macro(shares: Shares) -> Metric:
    return Metric(lambda counts: mean_defined(shares.figure(counts)), partial(mean_share, shares))


def _weighted(shares: Shares) -> Metric:
    return Metric(
        lambda counts: classification.weighted(shares.figure(counts), counts), partial(by_pictures, shares)
    )


def _each(shares: Shares) -> Metric:
    return Metric(shares.figure, partial(each_share, shares))


ANSWERS: Final[Mapping[str, Metric]] = {
    "accuracy": Metric(classification.accuracy, partial(mean_share, ACCURACY)),
    "balanced_accuracy": _macro(RECALLS),
    "macro_precision": _macro(PRECISIONS),
    "macro_f1": _macro(F1),
    "weighted_precision": _weighted(PRECISIONS),
    "weighted_recall": Metric(_weighted(RECALLS).value, partial(mean_share, ACCURACY)),
    "weighted_f1": _weighted(F1),
    "specificity": _macro(SPECIFICITIES),
}
"""Metrics of right and wrong answers: a confusion matrix is enough."""

METRICS: Final[Mapping[str, Metric]] = {
    **ANSWERS,
    "auroc": Metric(classification.auroc, classification.mean_auroc_moments),
    "auprc": Metric(classification.auprc, classification.mean_auprc_moments),
    "malignancy_auroc": Metric(classification.malignancy_auroc, classification.malignancy_moments),
    "ece": Metric(calibration.ece, calibration.expected_error),
    "mce": Metric(calibration.mce, calibration.largest_error),
    "aurc": Metric(selective.aurc, selective.aurc_variance),
}

MALIGNANCY: Final[Mapping[str, Callable[[NDArray[np.bool_]], Metric]]] = {
    "malignant_sensitivity": lambda malignant: _macro(classification.malignant_answers(malignant)),
    "malignant_specificity": lambda malignant: _macro(classification.other_answers(malignant)),
}
"""Metrics that need to know which classes are malignant, `(classes,)`."""

BY_CLASS: Final[Mapping[str, Metric]] = {
    "recall": _each(RECALLS),
    "precision": _each(PRECISIONS),
    "f1": _each(F1),
    "specificity": _each(SPECIFICITIES),
    "auroc": Metric(classification.aurocs, classification.auroc_moments),
    "auprc": Metric(classification.auprcs, classification.auprc_moments),
}
"""Metrics of each class, `(..., classes)`."""

_OF_SUBGROUPS: Final = (
    *("accuracy", "balanced_accuracy", "auroc", "malignancy_auroc", "ece", "mce"),
    *MALIGNANCY,
)
_OF_CLIENTS: Final = (
    *("accuracy", "balanced_accuracy", "macro_precision", "macro_f1", "specificity", "auroc", "auprc"),
    *("ece", "mce", "aurc"),
)
_OF_CLASSES_OF_CLIENTS: Final = ("recall", "precision", "f1", "auroc", "auprc")
_OF_CELLS: Final = ("accuracy", "balanced_accuracy", "malignant_sensitivity")

FAIRNESS: Final[Mapping[str, Callable[[Mapping[str, Confusion]], Figure]]] = {
    "variance": fairness.variance,
    "gap": fairness.gap,
    "worst": fairness.worst,
    "spread": fairness.spread,
    "spread_standardised": fairness.spread_standardised,
}

FEWEST: Final = 30
"""Pictures of an intersection that is shown."""

UNKNOWN: Final = "unknown"
"""The value of a picture of which nothing is known in a column; the last of all values."""


def metric(name: str, malignant: NDArray[np.bool_] | None = None) -> Metric:
    """A metric by its name in `summary.json`.

    Args:
        name: of `METRICS` or `MALIGNANCY`.
        malignant: which classes are malignant, `(classes,)`, where the metric is of `MALIGNANCY`.
    """
    if name not in MALIGNANCY:
        return METRICS[name]
    assert malignant is not None, f"{name} is of malignant classes"
    return MALIGNANCY[name](malignant)


def limits_of(name: str, sample: Sample[Any], malignant: NDArray[np.bool_] | None = None) -> Limits:
    """The limits of a metric by its name, `malignant` as of `metric`.

    The sample is of counts, or of a confusion matrix where that is enough.
    """
    return metric(name, malignant).of_sample(sample).limits()


def mean_of_limits(name: str, samples: Sequence[Sample[Counts]]) -> Limits:
    """The limits of the mean of a metric over independent samples, such as clients, that define it."""
    found = [METRICS[name].of_sample(sample) for sample in samples]
    distances = [one for one in found if isinstance(one, Distance)]
    if distances:
        held = zip(distances, samples, strict=True)
        return mean_distance([one for one, sample in held if sample.counts.n > 0]).limits()
    return Moments.stack([one for one in found if isinstance(one, Moments)]).mean().limits()


def number(value: Figure) -> float | None:
    """A metric; None where it is undefined."""
    return None if np.isnan(value) else float(value)


def _numbers(
    sample: Sample[Any], names: Sequence[str], malignant: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """`n`, metrics of the counts of a block or a cell by name, and their `intervals`."""
    values = {name: metric(name, malignant).value(sample.counts) for name in names}
    return {
        "n": int(sample.counts.n),
        **{name: number(value) for name, value in values.items()},
        "intervals": {
            name: None if np.isnan(value) else limits_of(name, sample, malignant).ends()
            for name, value in values.items()
        },
    }


def intersections(
    blocks: Mapping[str, Block],
    subgroups: Sequence[str],
    malignant: NDArray[np.bool_],
    known: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """By column, value and subgroup: pictures, accuracy, balanced accuracy and sensitivity for malignancy.

    None represents an intersection of which clients disclosed fewer than `FEWEST` pictures; each client
    suppresses its own small cells.

    Args:
        blocks: counts by subgroup, with their cells.
        subgroups: those to report.
        malignant: which classes are malignant, `(classes,)`.
        known: the columns that were asked for, and their values as far as they are known beforehand, in
            order; what clients send of other columns is left out.
    """
    effects = {name: DesignEffect.estimated(block.by_lesion) for name, block in blocks.items()}
    traits = {trait for block in blocks.values() for trait in block.cells}

    def of_cell(name: str, trait: tuple[str, str]) -> dict[str, Any] | None:
        cell = blocks[name].cells.get(trait) if name in blocks else None
        if cell is None or cell.n < FEWEST:
            return None
        return _numbers(Sample(cell, effects[name]), _OF_CELLS, malignant)

    return {
        column: {
            value: {name: of_cell(name, (column, value)) for name in subgroups}
            for value in _in_order({value for own, value in traits if own == column}, values)
        }
        for column, values in known.items()
    }


def _in_order(found: set[str], known: Sequence[str]) -> list[str]:
    """Values as they are known, then others by name, and last what is unknown."""
    values = dict.fromkeys([*known, *sorted(found)])
    return sorted(values, key=lambda value: value == UNKNOWN)


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
        details: more to say of a subgroup (`coverage`, `epoch`), added to its metrics; its
            `intervals` are merged with theirs.
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
    if total.kinds is not None and len(total.kinds.found.n) != 1 + len(kinds_of(labels)):
        raise CountsError(
            f"the counts are of {len(total.kinds.found.n) - 1} kinds of malignancy; the labels are of "
            f"{', '.join(kinds_of(labels)) or 'none'}"
        )
    malignant = malignant_classes(labels)
    summary = {
        **_figures(total, [*METRICS, *MALIGNANCY], labels),
        "by_class": _by_class(total.point, labels),
        "fairness": _fairness(compared),
        "differences": fairness.differences(compared),
        "by_subgroup": {
            name: _with(_figures(block, _OF_SUBGROUPS, labels), (details or {}).get(name, {}))
            for name, block in present.items()
        },
        "absent": [name for name in dict.fromkeys([*fair_over, *blocks]) if name not in present],
    }
    if traits:
        named = list(dict.fromkeys([*fair_over, *present]))
        summary["intersections"] = intersections(present, named, malignant, traits)
    return summary


def _figures(block: Block, names: Sequence[str], labels: Sequence[Label]) -> dict[str, Any]:
    malignant = malignant_classes(labels)
    of_class = block.point.confusion.sum(axis=-1)
    sides = {"n_malignant": int(of_class[malignant].sum()), "n_other": int(of_class[~malignant].sum())}
    kinds: dict[str, Any] = (
        {} if block.kinds is None else {"by_kind": selective.by_kind(block.kinds, kinds_of(labels))}
    )
    if block.nodes is not None:
        kinds["by_answer"] = {
            f"{node.level}/{node.code}": {"n": n, "wrong": wrong}
            for node, (n, wrong) in zip(Tree(labels).nodes, block.nodes.tolist(), strict=True)
            if n
        }
    return sides | _numbers(sample_of(block), names, malignant) | kinds


def _with(figures: dict[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    intervals = {**figures["intervals"], **details.get("intervals", {})}
    return {**figures, **details, "intervals": intervals}


def _by_class(counts: Counts, labels: Sequence[Label]) -> dict[str, Any]:
    figures = {name: metric.value(counts) for name, metric in BY_CLASS.items()}
    support = counts.confusion.sum(axis=-1)
    return {
        label.code: {"n": int(support[k])} | {name: number(values[k]) for name, values in figures.items()}
        for k, label in enumerate(labels)
    }


def _fairness(blocks: Mapping[str, Block]) -> dict[str, Any]:
    points = {name: block.point for name, block in blocks.items()}
    figures: dict[str, Any] = {name: number(figure(points)) for name, figure in FAIRNESS.items()}
    found = fairness.fairness_limits({name: sample_of(block) for name, block in blocks.items()})
    figures["intervals"] = (
        {name: found[name].ends() for name in FAIRNESS} if found else dict.fromkeys(FAIRNESS)
    )
    return figures


def over_clients(
    blocks: Mapping[str, Block],
    communities: Mapping[str, Sequence[str]] | None = None,
    codes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Each client's figures as `by_client`, and their means as `over_clients`, ready for JSON.

    With a mean come its interval, the median and the population standard deviation
    sqrt((1/C) Σ_c (f_c − mean)²) over the C clients that define the figure, and C as `clients`.

    A figure that a client's test pictures do not define (AUROC with one class) is None there and left out
    of the mean. Clients are independent.

    Args:
        blocks: each client's counts.
        communities: names of groups of clients and who is in them; gives `by_community`, each figure a mean
            over the clients of the community that have counts. A community of which no client has any is
            absent.
        codes: the codes of the classes, in the order of the counts; gives `by_class`, each figure a mean over
            the `clients` that have the class.

    Raises:
        CountsError: the counts are not of as many classes as there are codes.
    """
    samples = [sample_of(block) for block in blocks.values()]
    points = {
        client: {name: METRICS[name].value(block.point) for name in _OF_CLIENTS}
        for client, block in blocks.items()
    }
    facts: dict[str, Any] = {
        "by_client": {
            client: {
                "n": int(blocks[client].point.n),
                **{name: number(value) for name, value in own.items()},
            }
            for client, own in points.items()
        },
        "over_clients": {name: _over(name, samples) for name in _OF_CLIENTS},
    }
    if communities is not None:
        judged = {name: [client for client in of if client in blocks] for name, of in communities.items()}
        facts["by_community"] = {
            name: {
                "clients": members,
                "n": sum(int(blocks[client].point.n) for client in members),
                **{
                    key: number(mean_defined(np.array([points[client][key] for client in members])))
                    for key in _OF_CLIENTS
                },
            }
            for name, members in judged.items()
            if members
        }
    if codes is not None:
        facts["by_class"] = _classes_over_clients([block.point for block in blocks.values()], codes)
    return facts


def _over(name: str, samples: list[Sample[Counts]]) -> dict[str, Any]:
    points = np.array([float(METRICS[name].value(sample.counts)) for sample in samples])
    defined = points[~np.isnan(points)]
    return {
        "mean": number(mean_defined(points)),
        "median": float(np.median(defined)) if defined.size else None,
        "std": float(np.std(defined)) if defined.size else None,
        "interval": mean_of_limits(name, samples).ends() if defined.size else None,
        "clients": int(defined.size),
    }


def _classes_over_clients(clients: list[Counts], codes: Sequence[str]) -> dict[str, Any]:
    for counts in clients:
        if counts.num_classes != len(codes):
            raise CountsError(
                f"the counts are of {counts.num_classes} classes; {len(codes)} codes were given: "
                f"{', '.join(codes)}. Give the code of every class, in the order of the model's outputs"
            )
    held = _over_classes([counts.confusion.sum(axis=-1) > 0 for counts in clients], len(codes)).sum(axis=0)
    means = {
        name: mean_defined(
            _over_classes([BY_CLASS[name].value(counts) for counts in clients], len(codes)), axis=0
        )
        for name in _OF_CLASSES_OF_CLIENTS
    }
    return {
        code: {"clients": int(held[k])} | {name: number(values[k]) for name, values in means.items()}
        for k, code in enumerate(codes)
    }


def _over_classes(rows: Sequence[NDArray[Any]], classes: int) -> NDArray[np.float64]:
    """Rows of one entry per class as `(clients, classes)`, also where there is no client."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), classes)
