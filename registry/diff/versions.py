"""Compares two versions of a registry: their manifests, their parents and their figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.bundle.manifest.schema import BundleManifest
from registry.diff.facts import Changed, changes
from registry.diff.figures import FigureChange, figure_changes
from registry.records import Version, Withdrawal


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
