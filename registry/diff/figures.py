"""Compares the test figures of two versions: over all pictures, of each subgroup, and of fairness.

The difference is after - before. Whether the two 95 % intervals overlap is reported, and no test: where they
do not, the versions differ; where they do, they may differ all the same, above all on the same test pictures.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.metrics.patient import COUNTS

Part = Literal["all", "subgroup", "fairness"]


@dataclass(frozen=True)
class FigureValue:
    """One figure of one version.

    Attributes:
        value: None where it is undefined or absent.
        interval: its two ends, if the manifest has them.
        n: pictures behind it, if the manifest says.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int | None


@dataclass(frozen=True)
class FigureChange:
    """One figure of both versions.

    Attributes:
        part: over what: all pictures, those of a subgroup, or the differences between subgroups.
        subgroup: which, for the part `subgroup`.
        figure: its name, as in `bundle.json`.
        before, after: of each version.
        difference: after - before; None where either is undefined.
        overlap: whether the intervals have a value in common; None where either is absent.
    """

    part: Part
    subgroup: str | None
    figure: str
    before: FigureValue
    after: FigureValue
    difference: float | None
    overlap: bool | None


def figure_changes(before: BundleManifest, after: BundleManifest) -> tuple[FigureChange, ...]:
    """Every figure that either version has, whether it changed or not."""
    one, other = _rows(before), _rows(after)
    return tuple(
        _change(part, subgroup, name, one.get((part, subgroup), {}), other.get((part, subgroup), {}))
        for part, subgroup in dict.fromkeys((*one, *other))
        for name in _names(one.get((part, subgroup), {}), other.get((part, subgroup), {}))
    )


def _rows(manifest: BundleManifest) -> dict[tuple[Part, str | None], Mapping[str, Any]]:
    """The blocks of figures of a manifest; what is in no known form is left out."""
    metrics = manifest.metrics
    found: dict[tuple[Part, str | None], Any] = {("all", None): metrics}
    subgroups = metrics.get("by_subgroup")
    if isinstance(subgroups, Mapping):
        found.update({("subgroup", name): row for name, row in subgroups.items()})
    found["fairness", None] = metrics.get("fairness")
    return {key: row for key, row in found.items() if isinstance(row, Mapping)}


def _names(*rows: Mapping[str, Any]) -> Iterator[str]:
    """Names of what is a figure in either row; one that is undefined in both is none."""
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in COUNTS and any(_is_number(row.get(name)) for row in rows):
            yield name


def _change(
    part: Part, subgroup: str | None, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> FigureChange:
    one, other = _figure(before, name), _figure(after, name)
    difference = None if one.value is None or other.value is None else other.value - one.value
    overlap = None
    if one.interval is not None and other.interval is not None:
        overlap = one.interval[0] <= other.interval[1] and other.interval[0] <= one.interval[1]
    return FigureChange(part, subgroup, name, one, other, difference, overlap)


def _figure(row: Mapping[str, Any], name: str) -> FigureValue:
    value, n, intervals = row.get(name), row.get("n"), row.get("intervals")
    ends = intervals.get(name) if isinstance(intervals, Mapping) else None
    return FigureValue(
        float(value) if _is_number(value) else None,  # type: ignore[arg-type]
        _interval(ends),
        n if isinstance(n, int) and not isinstance(n, bool) else None,
    )


def _interval(ends: Any) -> tuple[float, float] | None:
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(_is_number(end) for end in ends):
        return None
    low, high = float(ends[0]), float(ends[1])
    return (low, high) if low <= high else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
