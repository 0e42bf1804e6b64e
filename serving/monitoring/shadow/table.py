"""The shadow table for the operator's page: candidates compared with production."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from registry.bundle.metrics.intervals import mean_interval
from serving.metrics.multiprocess import WorkerTotals
from serving.monitoring.shadow.counting import (
    AGREEMENTS,
    COMPARISONS,
    DECISIONS,
    MALIGNANCY,
    SECONDS,
    SET_CODES,
    SIDES,
    Side,
)
from serving.releases.current_release import LoadedRelease

EVERYBODY = "all"
"""The row of all subgroups together."""


@dataclass(frozen=True)
class ShadowRow:
    """A candidate compared with the version that answered, over the pictures of one subgroup.

    Attributes:
        model: whose versions they are.
        version, candidate: which answered, and which was shown the same pictures.
        subgroup: of the declared tone; `all` for everybody together.
        n: pictures that both were shown.
        agreement: the share of which both found the same class most probable.
        interval: of that share, 95 %.
        decisions: how many pictures went from which decision to which.
        malignancy: the mean malignancy probability of each side; None where no class is malignant.
        set_size: the mean size of each side's prediction sets.
        latency_ratio: the candidate's time over production's, of the model alone; None before it was taken.
    """

    model: str
    version: int
    candidate: int
    subgroup: str
    n: int
    agreement: float
    interval: tuple[float, float]
    decisions: Mapping[tuple[str, str], int]
    malignancy: Mapping[Side, float] | None
    set_size: Mapping[Side, float]
    latency_ratio: float | None

    @property
    def changed(self) -> int:
        """Pictures that the candidate decided otherwise."""
        return sum(n for (before, after), n in self.decisions.items() if before != after)

    @property
    def malignancy_difference(self) -> float | None:
        """The candidate's mean malignancy probability less production's."""
        return (
            None if self.malignancy is None else self.malignancy["candidate"] - self.malignancy["production"]
        )


def shadow_table(
    totals: WorkerTotals, served: Iterable[LoadedRelease], candidates: Iterable[LoadedRelease]
) -> list[ShadowRow]:
    """The comparisons of the versions served with the current candidates, everybody first, then by subgroup.

    Args:
        totals: the counts of all workers.
        served: the releases that answer.
        candidates: the candidate releases.
    """
    answering, trying = _numbers(served), _numbers(candidates)
    found: dict[tuple[str, int, int], set[str]] = {}
    for labels, n in totals.named(f"{COMPARISONS}_total"):
        pair = labels["model"], int(labels["version"]), int(labels["candidate"])
        # A counter that a worker is just making, or was killed while making, is 0.
        if n and (pair[0], pair[1]) in answering and (pair[0], pair[2]) in trying:
            found.setdefault(pair, set()).add(labels["subgroup"])
    return [
        _row(totals, pair, subgroup, subgroups)
        for pair, subgroups in sorted(found.items())
        for subgroup in (EVERYBODY, *sorted(subgroups))
    ]


def _row(totals: WorkerTotals, pair: tuple[str, int, int], subgroup: str, subgroups: set[str]) -> ShadowRow:
    wanted = subgroups if subgroup == EVERYBODY else {subgroup}

    def sums(name: str, *by: str) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for labels, value in totals.named(f"{name}_total"):
            of = labels["model"], int(labels["version"]), int(labels["candidate"])
            if of == pair and labels["subgroup"] in wanted:
                key = tuple(labels[one] for one in by)
                counts[key] = counts.get(key, 0.0) + value
        return counts

    n, same = sums(COMPARISONS)[()], sums(AGREEMENTS).get((), 0.0)
    seconds, malignancy, codes = (sums(name, "side") for name in (SECONDS, MALIGNANCY, SET_CODES))
    return ShadowRow(
        model=pair[0],
        version=pair[1],
        candidate=pair[2],
        subgroup=subgroup,
        n=round(n),
        agreement=same / n,
        interval=mean_interval(np.array([same]), np.array([n])),
        decisions={
            (before, after): round(k) for (before, after), k in sums(DECISIONS, "before", "after").items()
        },
        malignancy={side: malignancy.get((side,), 0.0) / n for side in SIDES} if malignancy else None,
        set_size={side: codes.get((side,), 0.0) / n for side in SIDES},
        latency_ratio=seconds[("candidate",)] / seconds[("production",)] if len(seconds) == 2 else None,
    )


def _numbers(releases: Iterable[LoadedRelease]) -> set[tuple[str, int]]:
    return {
        (release.release.model, one.version.number)
        for release in releases
        for one in release.versions.values()
    }
