"""Figures from the sum of the counts of some of the clients, where nothing else is known, as under masks.

Known is how many pictures each of them holds, and that of n_c pictures from 0 to n_c are answered rightly.
The variance between clients is taken as large as it can be then. With f the share of the rarer kind of
answers and z_c = x_c / n_c that of client c, (x_c − f n_c)² ≤ n_c² (z_c (1 − f)² + (1 − z_c) f²), which is
largest where the rarer kind sits at the clients with the most pictures, all of theirs, then at the next:

    V = (1 − m/M) m/(m − 1) Σ_c n_c² (z_c (1 − f)² + (1 − z_c) f²) / (Σ_c n_c)²,

so that an interval is never narrower than each client's counts would make it. Of a mean of recalls each is
taken so, and all to go up and down together. Areas under curves have no interval.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.classification import accuracy, recalls
from registry.bundle.metrics.limits import Limits
from training.federation.blocks import Blocks
from training.federation.server.evaluation_cohort import EvaluationCohort
from training.federation.server.sampled_figures import FIGURES, limits
from training.federation.server.sampled_round import SampledFigures, SampledRound

Pictures = Mapping[str, Mapping[str, Sequence[int]]]
"""Labelled pictures by client, subgroup and class."""


def figures_from_sum(
    cohort: EvaluationCohort,
    answered: Sequence[str],
    blocks: Blocks,
    pictures: Pictures,
    held: Sequence[str],
) -> SampledRound | None:
    """Figures and the widest intervals from the sum of counts; None where nothing was counted.

    Args:
        cohort: who was asked.
        answered: who is in the sum.
        blocks: the sum, by subgroup.
        pictures: who holds what.
        held: the subgroups of which the clients hold pictures.
    """
    found = {name: block.point for name, block in blocks.items() if block.point.n}
    if not found:
        return None
    points = list(found.values())
    sizes = {
        name: np.array(
            [pictures.get(client, {}).get(name, ()) or [0] * points[0].num_classes for client in answered]
        )
        for name in found
    }
    share = len(answered) / cohort.of
    return SampledRound(
        cohort.asked,
        len(answered),
        cohort.of,
        bounded(sum(points[1:], points[0]), np.sum(list(sizes.values()), axis=0), share),
        {name: bounded(counts, sizes[name], share) for name, counts in found.items()},
        tuple(name for name in held if name not in found),
    )


def bounded(counts: Counts, sizes: NDArray[np.int64], share: float) -> SampledFigures:
    """Figures of a sum over clients that hold `(clients, classes)` pictures, `share` of all clients."""
    n, open_ = int(counts.n), 1 - share
    values = {name: figure(counts) for name, figure in FIGURES.items()}
    clients = int((sizes.sum(axis=1) > 0).sum())
    found = {name: Limits(value, value, value) for name, value in values.items()}
    if open_ > 0:
        of_classes = recalls(counts)
        deviations = [
            np.sqrt(widest(float(recall), sizes[:, place]))
            for place, recall in enumerate(of_classes)
            if not np.isnan(recall)
        ]
        variances = {
            "accuracy": widest(float(accuracy(counts)), sizes.sum(axis=1)),
            "balanced_accuracy": float(np.mean(deviations)) ** 2,
        }
        found |= {
            name: limits(values[name], open_ * variance, n, clients, clients - 1, open_)
            for name, variance in variances.items()
        }
    told = SampledFigures.of(n, None, found)
    return told if open_ <= 0 else SampledFigures(n, None, told.values, {**told.intervals, "auroc": None})


def widest(share: float, sizes: NDArray[np.int64]) -> float:
    """The largest variance of a share of answers, for `sizes` pictures at each client and M without end."""
    held = np.sort(sizes[sizes > 0])[::-1].astype(np.float64)
    if len(held) < 2:
        return 1.0
    rarer = min(share, 1 - share)
    before = np.cumsum(held) - held
    theirs = np.clip(rarer * held.sum() - before, 0, held) / held  # share of the rarer kind at each client
    apart = held**2 * (theirs * (1 - rarer) ** 2 + (1 - theirs) * rarer**2)
    m = len(held)
    return float(m / (m - 1) * apart.sum() / held.sum() ** 2)
