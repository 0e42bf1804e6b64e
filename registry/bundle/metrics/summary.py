"""Every metric of an evaluation, as the `test` block of `summary.json`: subgroups, intersections, clients.

Few pictures tell little: an intersection of fewer than `FEWEST` is unknown, and is shown as that and not as a
number.

Figures at single clients, of their own models or of the global one, and their means over clients.

"The recall and precision averaged over all devices are reported, and on each device, the recall and precision
are averaged over all classes" (Wu et al. 2022, Table I). "Mean (Median) ± Std. of different evaluation
metrics" (Bdair et al. 2022, Table 2), means over the clients of a community (Table 3) and, class by class,
over clients (Tables 5 to 7).

Departures: the papers do not say which deviation and what of a class that a client lacks. Here it is that of
the population of clients, and a client without a class has no part in the means of that class.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Cell, Counts, HasConfusion
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.metrics import calibration, classification, fairness, selective
from registry.bundle.metrics.estimate import figures_and_intervals, mean_of_limits, number
from registry.bundle.metrics.fairness import differences, fairness_limits
from registry.bundle.metrics.intervals import DesignEffect, Figure, Sample, mean_defined, sample_of

FEWEST = 30
UNKNOWN = "unknown"
"""The value of a picture of which nothing is known in a column; the last of all values."""


def intersections(
    blocks: Mapping[str, Block],
    subgroups: Sequence[str],
    malignant: NDArray[np.bool_],
    known: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """By column, value and subgroup: pictures, accuracy, balanced accuracy and sensitivity for malignancy.

    None stands for an intersection of which clients disclosed fewer than `FEWEST` pictures; each client
    suppresses its own small cells.

    Args:
        blocks: counts by subgroup, with their cells.
        subgroups: those to report.
        malignant: which classes are malignant, `(classes,)`.
        known: the columns that were asked for, and their values as far as they are known beforehand, in
            order; what clients send of other columns is left out.
    """
    effects = {name: DesignEffect.of(block) for name, block in blocks.items()}
    traits = {trait for block in blocks.values() for trait in block.cells}
    return {
        column: {
            value: {
                name: _figures_of_cell(blocks[name].cells.get((column, value)), effects[name], malignant)
                if name in blocks
                else None
                for name in subgroups
            }
            for value in _in_order({value for own, value in traits if own == column}, values)
        }
        for column, values in known.items()
    }


def _in_order(found: set[str], known: Sequence[str]) -> list[str]:
    """Values as they are known, then others by name, and last what is unknown."""
    values = dict.fromkeys([*known, *sorted(found)])
    return sorted(values, key=lambda value: value == UNKNOWN)


def _figures_of_cell(
    cell: Cell | None, effect: DesignEffect, malignant: NDArray[np.bool_]
) -> dict[str, Any] | None:
    if cell is None or cell.point.n < FEWEST:
        return None
    figures: Mapping[str, Callable[[HasConfusion], Figure]] = {
        "accuracy": classification.accuracy,
        "balanced_accuracy": classification.balanced_accuracy,
        "malignant_sensitivity": partial(classification.malignant_sensitivity, malignant=malignant),
    }
    return figures_and_intervals(Sample(cell.point, effect), figures, malignant)


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
    "malignant_sensitivity": classification.malignant_sensitivity,
    "malignant_specificity": classification.malignant_specificity,
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


CLIENT_FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
    "accuracy": classification.accuracy,
    "balanced_accuracy": classification.balanced_accuracy,
    "macro_precision": classification.macro_precision,
    "macro_f1": classification.macro_f1,
    "specificity": classification.specificity,
    "auroc": classification.auroc,
    "auprc": classification.auprc,
    "ece": calibration.ece,
    "mce": calibration.mce,
    "aurc": selective.aurc,
}

CLASS_FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
    "recall": classification.recalls,
    "precision": classification.precisions,
    "f1": classification.f1_scores,
    "auroc": classification.aurocs,
    "auprc": classification.auprcs,
}


def over_clients(
    blocks: Mapping[str, Block],
    communities: Mapping[str, Sequence[str]] | None = None,
    codes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Each client's figures as `by_client`, and their means as `over_clients`, ready for JSON.

    Beside a mean stand its interval, the median and the population standard deviation
    sqrt((1/C) Σ_c (f_c − mean)²) over the C clients that define the figure, and C as `clients`.

    A figure that a client's test pictures do not define (AUROC with one class) is None there and left out
    of the mean. Clients are independent.

    Args:
        blocks: each client's counts.
        communities: names of groups of clients and who is in them; gives `by_community`, each figure a mean
            over the clients of the community that have counts. A community of which nobody has any is absent.
        codes: the codes of the classes, in the order of the counts; gives `by_class`, each figure a mean over
            the `clients` that have the class.

    Raises:
        CountsError: the counts are not of as many classes as there are codes.
    """
    samples = [sample_of(block) for block in blocks.values()]
    points = {client: _points(block.point) for client, block in blocks.items()}
    facts: dict[str, Any] = {
        "by_client": {
            client: {
                "n": int(blocks[client].point.n),
                **{name: number(value) for name, value in own.items()},
            }
            for client, own in points.items()
        },
        "over_clients": {name: _over(name, figure, samples) for name, figure in CLIENT_FIGURES.items()},
    }
    if communities is not None:
        judged = {name: [client for client in of if client in blocks] for name, of in communities.items()}
        facts["by_community"] = {
            name: {
                "clients": members,
                "n": sum(int(blocks[client].point.n) for client in members),
                **{
                    key: number(mean_defined(np.array([points[client][key] for client in members])))
                    for key in CLIENT_FIGURES
                },
            }
            for name, members in judged.items()
            if members
        }
    if codes is not None:
        facts["by_class"] = _classes_over_clients([block.point for block in blocks.values()], codes)
    return facts


def _points(counts: Counts) -> dict[str, Figure]:
    return {name: figure(counts) for name, figure in CLIENT_FIGURES.items()}


def _over(name: str, figure: Callable[[Counts], Figure], samples: list[Sample[Counts]]) -> dict[str, Any]:
    points = np.array([float(figure(sample.counts)) for sample in samples])
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
        name: mean_defined(_over_classes([figure(counts) for counts in clients], len(codes)), axis=0)
        for name, figure in CLASS_FIGURES.items()
    }
    return {
        code: {"clients": int(held[k])} | {name: number(values[k]) for name, values in means.items()}
        for k, code in enumerate(codes)
    }


def _over_classes(rows: Sequence[NDArray[Any]], classes: int) -> NDArray[np.float64]:
    """Rows of one entry per class as `(clients, classes)`, also where there is no client."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), classes)
