"""Figures at single clients, of their own models or of the global one, and their means over clients.

"The recall and precision averaged over all devices are reported, and on each device, the recall and precision
are averaged over all classes" (Wu et al. 2022, Table I). "Mean (Median) ± Std. of different evaluation
metrics" (Bdair et al. 2022, Table 2), means over the clients of a community (Table 3) and, class by class,
over clients (Tables 5 to 7).

Departures: the papers do not say which deviation and what of a class that a client lacks. Here it is that of
the population of clients, and a client without a class has no part in the means of that class.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.count import Block, Counts
from registry.bundle.errors import CountsError
from registry.bundle.metrics import calibration, classification, selective
from registry.bundle.metrics.estimate import mean_of_limits, number
from registry.bundle.metrics.ratio import Figure, mean_defined
from registry.bundle.metrics.sample import Sample, sample_of

FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
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
        "over_clients": {name: _over(name, figure, samples) for name, figure in FIGURES.items()},
    }
    if communities is not None:
        judged = {name: [client for client in of if client in blocks] for name, of in communities.items()}
        facts["by_community"] = {
            name: {
                "clients": members,
                "n": sum(int(blocks[client].point.n) for client in members),
                **{
                    key: number(mean_defined(np.array([points[client][key] for client in members])))
                    for key in FIGURES
                },
            }
            for name, members in judged.items()
            if members
        }
    if codes is not None:
        facts["by_class"] = _by_class([block.point for block in blocks.values()], codes)
    return facts


def _points(counts: Counts) -> dict[str, Figure]:
    return {name: figure(counts) for name, figure in FIGURES.items()}


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


def _by_class(clients: list[Counts], codes: Sequence[str]) -> dict[str, Any]:
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
