"""Compares two manifests but for figures, one value under each dotted name (`lineage.seed`).

Compares the test figures of two versions: over all pictures, of each subgroup, and of fairness.

The difference is after - before. Whether the two 95 % intervals overlap is reported, and no test: where they
do not, the versions differ; where they do, they may differ all the same, above all on the same test pictures.

Compares two versions of a registry: their manifests, their parents and their figures.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.manifest import BundleManifest, sha256
from registry.bundle.metrics.patient import COUNTS
from registry.records import Version, Withdrawal

_FIGURES: Final = {"evaluation", "reference"}
_PACKED: Final = (
    "means",
    "whitening",
)  # matrices as text: what matters to a reader is whether they are the same


@dataclass(frozen=True)
class Changed:
    """One value that differs between two manifests.

    Attributes:
        what: its name, with dots, as in `bundle.json`.
        before, after: the value in each; None where it is absent.
    """

    what: str
    before: Any
    after: Any


def facts(manifest: BundleManifest) -> dict[str, Any]:
    """Every value of a manifest but its figures, by dotted name, in the order of `bundle.json`."""
    record = manifest.model_dump(mode="json", exclude=_FIGURES)
    for name, threshold_bin in (
        ("conformal", manifest.conformal.threshold_bin),
        ("abstention", manifest.abstention.threshold_bin),
    ):
        record[name]["threshold"] = LOGIT_BINS.lower(threshold_bin)
    _name_cases(record, manifest)
    unfamiliar = record["out_of_distribution"]
    if unfamiliar is not None:
        unfamiliar.update({name: sha256(unfamiliar[name].encode()) for name in _PACKED})
    labels = record.pop("labels")
    record["labels"] = {"order": [one["code"] for one in labels], **{one.pop("code"): one for one in labels}}
    return dict(_flat(record))


def _name_cases(record: dict[str, Any], manifest: BundleManifest) -> None:
    """Puts facts and patterns under their names; a model of single pictures has neither."""
    if manifest.case is None:
        del record["case"], record["patterns"]
        return
    facts = record["case"].pop("facts")
    record["case"]["facts"] = {
        "order": [one["name"] for one in facts],
        **{one.pop("name"): one for one in facts},
    }
    record["patterns"] = {}
    for rules in manifest.patterns:
        said = rules.model_dump(mode="json", exclude={"pattern"})
        for name in ("conformal", "abstention"):
            said[name]["threshold"] = LOGIT_BINS.lower(said[name]["threshold_bin"])
        record["patterns"][rules.pattern.name] = said


def changes(before: BundleManifest, after: BundleManifest) -> tuple[tuple[Changed, ...], tuple[str, ...]]:
    """The values that differ between two manifests, and the names of those that do not."""
    one, other = facts(before), facts(after)
    names = list(dict.fromkeys((*one, *other)))
    changed = tuple(
        Changed(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)
    )
    differing = {each.what for each in changed}
    return changed, tuple(name for name in names if name not in differing)


def _flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


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


@dataclass(frozen=True)
class ComparedVersion:
    """One of the two versions.

    Attributes:
        version: its number.
        digest: its bundle's digest.
        subgroup: whom it is for.
        parent: the digest of what it began from, if its bundle says.
        parent_version: the version of the same model that this is; None where it is none of them.
        withdrawn: that it was withdrawn, when and why; empty where it was not.
    """

    version: int
    digest: str
    subgroup: str
    parent: str | None
    parent_version: int | None
    withdrawn: str = ""


@dataclass(frozen=True)
class Difference:
    """The difference between two versions of a model.

    Attributes:
        model: the model's name.
        before, after: the two.
        changed: the values of the manifests that differ, figures left out.
        unchanged: the names of those that do not.
        figures: every test figure of both.
    """

    model: str
    before: ComparedVersion
    after: ComparedVersion
    changed: tuple[Changed, ...]
    unchanged: tuple[str, ...]
    figures: tuple[FigureChange, ...]


def compare(
    pair: Sequence[tuple[Version, BundleManifest]],
    known: Sequence[Version],
    withdrawals: Sequence[Withdrawal] = (),
) -> Difference:
    """Compares the first version with the second; `known` and `withdrawals` are all those of the model."""
    (_, before), (_, after) = pair
    numbers = {version.digest: version.number for version in known}
    told = {one.number: str(one) for one in withdrawals}
    first, second = (
        _side(version, manifest, numbers, told.get(version.number, "")) for version, manifest in pair
    )
    changed, unchanged = changes(before, after)
    return Difference(known[0].model, first, second, changed, unchanged, figure_changes(before, after))


def _side(
    version: Version, manifest: BundleManifest, numbers: Mapping[str, int], withdrawn: str
) -> ComparedVersion:
    parent = manifest.lineage.parent
    return ComparedVersion(
        version.number,
        version.digest,
        version.subgroup.name,
        parent,
        None if parent is None else numbers.get(parent),
        withdrawn,
    )
