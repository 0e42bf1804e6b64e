"""Figures from the counts of some of the clients, with the error of having asked no others.

A figure is that of the weighted counts Σ_h M_h/m_h Σ_c counts_c: a ratio estimator, since right answers and
pictures alike are sums over the drawn clients (Cochran 1977, chapter 6). Its variance is that between
clients, by leaving each out in turn (the stratified jackknife, Jones 1974; Wolter 2007, chapter 4):

    V = Σ_h (1 − m_h/M_h) (m_h − 1)/m_h Σ_c (f_(hc) − f)²,

where f_(hc) is the figure without client c, the others of its stratum standing for it; 1 − m_h/M_h is the
finite population correction, and V is 0 where all answered. A stratum of which fewer than two answered of
more is put together with the next.

Few clients that are alike do not show that all are: V is as if one client more had answered half of its
pictures rightly, and widened by the square of Student's t over z, with as many degrees of freedom as clients
that counted, less one for each of their strata. It is never below that of so many independent pictures.
Limits are those of effective numbers (`registry.bundle.metrics.moments`), of the figure that all clients
together would have given; 0 and 1 without a degree of freedom.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.classification import accuracy, auroc, balanced_accuracy
from registry.bundle.metrics.exact import beta_quantile
from registry.bundle.metrics.limits import LEVEL, Limits, Z
from registry.bundle.metrics.moments import Moments
from registry.bundle.metrics.ratio import Figure
from training.federation.server.evaluation_cohort import EvaluationCohort
from training.federation.server.sampled_round import SampledFigures, SampledRound

FIGURES: Mapping[str, Callable[[Counts], Figure]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "auroc": auroc,
}
AT_ONCE = 64  # clients that are left out in one pass over the histograms
FEWEST = 2  # clients of a stratum that tell how unlike its clients are

OfClient = Mapping[str, Counts]
"""A client's counts by subgroup."""
Answered = tuple[int, Sequence[Counts | None]]
"""Of a stratum: how many clients it has, and the counts of those that answered; None of no pictures."""


def figures_from_clients(
    cohort: EvaluationCohort, answers: Mapping[str, OfClient], subgroups: Sequence[str], held: Sequence[str]
) -> SampledRound | None:
    """Figures and intervals from the counts of each client; None where nothing was counted.

    Args:
        cohort: who was asked.
        answers: the counts of those that answered, by subgroup.
        subgroups: of the figures, in order.
        held: the subgroups of which the clients hold pictures.
    """
    strata = collapsed(
        [
            (len(stratum.clients), [answers[client] for client in stratum.asked if client in answers])
            for stratum in cohort.strata
        ]
    )
    found: dict[str, SampledFigures] = {}
    for name in subgroups:
        counts = [(of, [over(counts, [name]) for counts in many]) for of, many in strata]
        if any(each is not None for _, many in counts for each in many):
            found[name] = estimated(counts)
    if not found:
        return None
    return SampledRound(
        cohort.asked,
        len(answers),
        cohort.of,
        estimated([(of, [over(counts, subgroups) for counts in many]) for of, many in strata]),
        found,
        tuple(name for name in held if name not in found),
    )


def over(counts: OfClient, names: Sequence[str]) -> Counts | None:
    """A client's counts of some subgroups; None where it has none."""
    held = [counts[name] for name in names if name in counts and counts[name].n]
    return sum(held[1:], held[0]) if held else None


def needed_of(counts: Counts) -> Counts:
    """Counts as far as these figures need them, in half the memory: those of a whole cohort are held."""
    return counts_of(counts.confusion.astype(np.int32), counts.scores.astype(np.int32))


def collapsed(strata: Sequence[tuple[int, Sequence[OfClient]]]) -> list[tuple[int, Sequence[OfClient]]]:
    """Strata of which two answered, or all; others go together with the next, the last with that before."""
    found: list[tuple[int, Sequence[OfClient]]] = []
    of, many = 0, list[OfClient]()
    for size, answers in strata:
        of, many = of + size, [*many, *answers]
        if len(many) >= FEWEST or len(many) == of:
            found.append((of, many))
            of, many = 0, []
    if of:
        before, others = found.pop() if found else (0, [])
        found.append((before + of, [*others, *many]))
    return found


def estimated(strata: Sequence[Answered]) -> SampledFigures:
    """Figures and their intervals from the counts of the clients of each stratum."""
    held = [(of, [each for each in many if each is not None], len(many)) for of, many in strata]
    n = sum(int(each.n) for _, counts, _ in held for each in counts)
    clients = sum(len(counts) for _, counts, _ in held)
    total = weighted(held)
    values = {name: figure(counts_of(*total)) for name, figure in FIGURES.items()}
    sampled = [(counts, answered / of) for of, counts, answered in held if counts and answered < of]
    if not sampled:  # all that hold any were asked: nothing is left open
        return SampledFigures.of(
            n, clients, {name: Limits(value, value, value) for name, value in values.items()}
        )
    freedom = sum(len(counts) - 1 for counts, _ in sampled)
    open_ = 1 - min(share for _, share in sampled)
    variances = dict.fromkeys(FIGURES, 0.0)
    for variance, replicates in left_out(held, total):
        for name, figure in FIGURES.items():
            apart = np.nan_to_num(figure(replicates) - values[name])
            variances[name] += float((variance * apart**2).sum())
    return SampledFigures.of(
        n,
        clients,
        {name: limits(values[name], variances[name], n, clients, freedom, open_) for name in FIGURES},
    )


Held = Sequence[tuple[int, Sequence[Counts], int]]
"""Of each stratum: its clients, the counts of those that counted any, and how many answered."""
Arrays = tuple[NDArray[Any], NDArray[Any]]
"""A confusion matrix and histograms of scores."""


def counts_of(confusion: NDArray[Any], scores: NDArray[Any]) -> Counts:
    """Counts as far as the figures of a round need them."""
    none = np.zeros((*confusion.shape[:-2], 2, 1), dtype=np.int64)
    return Counts(confusion, scores, none, none)


def stacked(counts: Sequence[Counts]) -> Arrays:
    """The arrays of several counts, each with a leading axis of clients."""
    return np.stack([each.confusion for each in counts]), np.stack([each.scores for each in counts])


def weighted(strata: Held) -> Arrays:
    """The sum of all counts, each as often as there are clients that it stands for."""
    sums = [
        (of / answered, [array.sum(axis=0) for array in stacked(counts)])
        for of, counts, answered in strata
        if counts
    ]
    confusion, scores = (sum(weight * arrays[place] for weight, arrays in sums) for place in range(2))
    return np.asarray(confusion), np.asarray(scores)


def left_out(strata: Held, total: Arrays) -> Iterator[tuple[NDArray[np.float64], Counts]]:
    """Counts without one client each, and by how much a squared change of each adds to the variance."""
    for of, counts, answered in strata:
        if not counts or answered == of or answered < FEWEST:
            continue
        of_stratum = [array.sum(axis=0) for array in stacked(counts)]
        factor, more = (1 - answered / of) * (answered - 1) / answered, of / (answered - 1)
        rest = [
            whole - of / answered * part + more * part for whole, part in zip(total, of_stratum, strict=True)
        ]
        for start in range(0, len(counts), AT_ONCE):
            some = stacked(counts[start : start + AT_ONCE])
            confusion, scores = (array - more * own for array, own in zip(rest, some, strict=True))
            yield np.full(len(confusion), factor), counts_of(confusion, scores)
        without = answered - len(counts)  # leaving out one of no pictures scales the others up
        if without:
            yield np.array([factor * without]), counts_of(rest[0][np.newaxis], rest[1][np.newaxis])


def limits(value: Figure, variance: float, n: int, clients: int, freedom: int, open_: float) -> Limits:
    """The limits of a figure.

    Args:
        value: f.
        variance: V between clients.
        n: pictures.
        clients: that counted any.
        freedom: degrees of freedom.
        open_: 1 − m/M.
    """
    if np.isnan(value):
        return Limits(value, value, value)
    if freedom < 1:
        return Limits(value, np.array(0.0), np.array(1.0))
    smooth = (value * clients + 0.5) / (clients + 1)
    one_more = open_ * (0.5 - value) ** 2 / (clients + 1) ** 2
    least = open_ * smooth * (1 - smooth) / n
    spread = np.maximum(variance + one_more, least) * (student(freedom) / Z) ** 2
    return Moments(value, np.asarray(smooth), np.asarray(spread), value, value).limits()


def student(freedom: int) -> float:
    """The 0.975-quantile of Student's t: t² / (t² + k) is of Beta(1/2, k/2)."""
    share = float(beta_quantile(LEVEL, np.array(0.5), np.array(freedom / 2)))
    return sqrt(freedom * share / (1 - share))
