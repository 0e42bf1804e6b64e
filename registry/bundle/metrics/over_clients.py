"""Figures of models that clients have for themselves: each client's own, and their means over clients.

"The recall and precision averaged over all devices are reported, and on each device, the recall and precision
are averaged over all classes" (Wu et al. 2022, Table I).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from registry.bundle.counts import Block, Counts
from registry.bundle.metrics import classification
from registry.bundle.metrics.interval import interval
from registry.bundle.metrics.ratio import Figure, mean_defined

FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
    "accuracy": classification.accuracy,
    "balanced_accuracy": classification.balanced_accuracy,
    "macro_precision": classification.macro_precision,
    "macro_f1": classification.macro_f1,
    "specificity": classification.specificity,
    "auroc": classification.auroc,
}


def over_clients(blocks: Mapping[str, Block]) -> dict[str, Any]:
    """Each client's figures as `by_client`, and their means as `over_clients`, ready for JSON.

    Of a mean its interval is told, and of how many clients it is a mean.

    A figure that a client's test pictures do not define (AUROC with one class) is None there and left out
    of the mean. Clients are independent, so the mean over clients of their r-th bootstrap replicates is a
    replicate of the mean.

    Args:
        blocks: each client's counts.
    """
    return {
        "by_client": {
            client: {
                "n": int(block.point.n),
                **{name: _number(figure(block.point)) for name, figure in FIGURES.items()},
            }
            for client, block in blocks.items()
        },
        "over_clients": {name: _mean(figure, list(blocks.values())) for name, figure in FIGURES.items()},
    }


def _mean(figure: Callable[[Counts], Figure], blocks: list[Block]) -> dict[str, Any]:
    points = np.array([float(figure(block.point)) for block in blocks])
    replicates = [figure(block.replicates) for block in blocks if block.replicates is not None]
    ends = None
    if replicates and len(replicates) == len(blocks):
        ends = interval(mean_defined(np.stack(replicates), axis=0))
    return {
        "mean": _number(mean_defined(points)),
        "interval": None if ends is None else list(ends),
        "clients": int((~np.isnan(points)).sum()),
    }


def _number(value: Figure) -> float | None:
    return None if np.isnan(value) else float(value)
