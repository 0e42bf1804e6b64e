"""Subgroups: groups proposed from the skin tones that occur.

Scales are never mixed: the groups are of the scale that most pictures have, and tones of another count as
undeclared. A group of very few patients is put together with its neighbour, since nothing could be told of
it; one without any is not there, and is said to be missing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from clients.data.errors import SubgroupError
from clients.new_job.manifests import Manifests
from registry.bundle.nearest import nearest
from training.data.settings import ColumnSubgroups, ToneSubgroups

FEWEST = 10  # labelled patients; of fewer a group's splits would be all but empty

# From light to dark, so that neighbours stand side by side.
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "fitzpatrick": {"light": ("1", "2"), "medium": ("3", "4"), "dark": ("5", "6")},
    "monk": {"light": ("1", "2", "3", "4"), "medium": ("5", "6", "7"), "dark": ("8", "9", "10")},
    "milk10k": {"light": ("4", "5"), "medium": ("3",), "dark": ("0", "1", "2")},
    "ddi": {"light": ("12",), "medium": ("34",), "dark": ("56",)},
}


@dataclass(frozen=True)
class Tones:
    """What the manifests say of skin tones on one scale.

    Attributes:
        scale: the scale.
        patients: labelled patients of each group as it would be without putting any together.
        groups: the groups that are proposed, from light to dark.
        others: pictures whose tone is of another scale.
        undeclared: pictures without a tone.
    """

    scale: str
    patients: Mapping[str, int]
    groups: Mapping[str, tuple[str, ...]]
    others: int
    undeclared: int

    @property
    def absent(self) -> tuple[str, ...]:
        """Groups of which there is no labelled picture."""
        return tuple(name for name, count in self.patients.items() if not count)

    @property
    def joined(self) -> tuple[str, ...]:
        """Groups of very few patients, which are put together with a neighbour."""
        return tuple(name for name, count in self.patients.items() if count and name not in self.groups)

    @property
    def setting(self) -> ToneSubgroups | None:
        """The job's `subgroups`; None where there is one group or none, since there is nothing to compare."""
        return ToneSubgroups(scale=self.scale, groups=self.groups) if len(self.groups) > 1 else None


def scales_by_pictures(manifests: Manifests) -> dict[str, int]:
    """Pictures of each scale that occurs, the most frequent first."""
    counts = Counter(row.skin_tone_scale for row in manifests.rows if row.skin_tone)
    return dict(counts.most_common())


def tones_of(manifests: Manifests, scale: str) -> Tones:
    """The groups that are proposed on one scale.

    Raises:
        SubgroupError: no picture has a tone of this scale.
    """
    found = scales_by_pictures(manifests)
    if scale not in found:
        known = ", ".join(found) or "none"
        raise SubgroupError(f"no picture has a skin tone of the scale {scale}; scales that occur: {known}")

    def patients(tones: tuple[str, ...]) -> int:
        return manifests.patients_of(
            [
                bool(row.label) and row.skin_tone_scale == scale and row.skin_tone in tones
                for row in manifests.rows
            ]
        )

    whole = {name: patients(tones) for name, tones in GROUPS[scale].items()}
    return Tones(
        scale=scale,
        patients=whole,
        groups=_joined([(name, GROUPS[scale][name], count) for name, count in whole.items() if count]),
        others=sum(count for name, count in found.items() if name != scale),
        undeclared=sum(not row.skin_tone for row in manifests.rows),
    )


def _joined(groups: list[tuple[str, tuple[str, ...], int]]) -> dict[str, tuple[str, ...]]:
    """Groups with those of too few patients put together with the smaller of their neighbours."""
    groups = list(groups)
    while len(groups) > 1 and min(count for *_, count in groups) < FEWEST:
        place = min(range(len(groups)), key=lambda number: groups[number][2])
        beside = [number for number in (place - 1, place + 1) if 0 <= number < len(groups)]
        other = min(beside, key=lambda number: groups[number][2])
        first, second = sorted((place, other))
        one, two = groups[first], groups[second]
        groups[first : second + 1] = [(f"{one[0]}-{two[0]}", (*one[1], *two[1]), one[2] + two[2])]
    return {name: tones for name, tones, _ in groups}


def column_setting(manifests: Manifests, column: str) -> ColumnSubgroups:
    """Subgroups by a column.

    Raises:
        SubgroupError: the manifests have no such column, or it is empty.
    """
    columns = ("label", "site", *manifests.columns)
    if column not in columns:
        raise SubgroupError(f"the manifests have no column {column!r}; {nearest(column, list(columns))}")
    values = {row.value(column) for row in manifests.rows if row.label} - {""}
    if len(values) < 2:
        raise SubgroupError(f"the column {column!r} has {len(values)} values, so it names no subgroups")
    return ColumnSubgroups(column=column)
