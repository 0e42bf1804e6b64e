"""Whether a version's maps may be shown: judged on its figures against limits that stood before.

The limits are of the lower ends of 95 % intervals (Wilson 1927), so that few pictures prove nothing. What a
map has to show is that the answer hangs on where it points, more than on anywhere else, on every skin tone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from registry.bundle.manifest.map_judgement import MapFigures, MapJudgement
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.metrics.wilson import mean_interval

LEAST: Final = 100
"""Pictures without which nothing is judged."""

AGAINST_ELSEWHERE: Final = 0.6
"""Over all: in which share of pictures the map's cells cost the class more than the same cells elsewhere."""

IN_A_SUBGROUP: Final = 0.5
"""The same in each subgroup of `LEAST_OF_A_SUBGROUP` pictures or more; smaller ones are told, not judged."""

LEAST_OF_A_SUBGROUP: Final = 30

AGAINST_OTHERS: Final = 0.5
"""Over all: the share in which they cost more than those of another picture's map."""

AGAINST_SHUFFLED: Final = 0.5
"""Over all: the share in which they cost more than those of shuffled weights."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Check:
    """One thing that a version's maps are held to.

    Attributes:
        name: of the check, for programs.
        subgroup: of whom; None for all.
        value: the share that was found.
        interval: its 95 % interval.
        limit: what its lower end has to exceed.
        passed: whether it does.
    """

    name: str
    subgroup: str | None
    value: float
    interval: Interval
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the lower end is above the limit."""
        return self.interval[0] > self.limit


def share(count: float, n: int) -> tuple[float, Interval]:
    """A share of pictures with its 95 % interval."""
    return count / n, mean_interval(np.array([count]), np.array([n]))


def checks(judgement: MapJudgement) -> tuple[Check, ...]:
    """All that a version's maps are held to."""
    overall = judgement.overall
    found = [
        _check("against elsewhere", None, overall.against_elsewhere, overall.n, AGAINST_ELSEWHERE),
        _check("against another picture's map", None, overall.against_others, overall.n, AGAINST_OTHERS),
        _check("against shuffled weights", None, overall.against_shuffled, overall.n, AGAINST_SHUFFLED),
    ]
    if overall.masks and overall.chance is not None:
        found.append(_check("points at the lesion", None, overall.hits, overall.masks, overall.chance))
    found += [
        _check("against elsewhere", one.subgroup, one.against_elsewhere, one.n, IN_A_SUBGROUP)
        for one in judgement.by_subgroup
        if not too_few(one)
    ]
    return tuple(found)


def _check(name: str, subgroup: str | None, count: float, n: int, limit: float) -> Check:
    value, interval = share(count, n)
    return Check(name, subgroup, value, interval, limit)


def why_no_map(manifest: BundleManifest, has_map: bool) -> str | None:
    """Why the maps of a version are not shown; None where they are.

    Args:
        manifest: what its bundle says.
        has_map: whether its graph has one.
    """
    if not has_map:
        return "The model of this version cannot tell where it looked."
    judgement = manifest.maps
    if judgement is None:
        return "Nobody has judged whether the maps of this version show what its answers hang on."
    if judgement.overall.n < LEAST:
        return (
            f"The maps of this version were judged on {judgement.overall.n:,} pictures; {LEAST} are needed."
        )
    if not all(one.passed for one in checks(judgement)):
        return "The maps of this version did not prove that its answers hang on where they point."
    return None


def judged_for(manifest: BundleManifest, skin_tone: str | None, scale: str | None) -> bool:
    """Whether the maps were judged on a declared tone by itself; of an undeclared one nothing is asked."""
    if skin_tone is None or manifest.maps is None:
        return True
    named = manifest.named_subgroups
    names = {one.name for one in named if not one.is_global and one.covers(skin_tone, scale)}
    judged = {one.subgroup for one in manifest.maps.by_subgroup if not too_few(one)}
    return bool(judged & {*names, f"{scale} {skin_tone}"})


def too_few(figures: MapFigures) -> bool:
    """Whether a subgroup has too few pictures to be judged by itself."""
    return figures.n < LEAST_OF_A_SUBGROUP
