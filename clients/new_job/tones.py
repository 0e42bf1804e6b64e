"""Subgroups: groups proposed from the skin tones that occur.

Scales are never mixed: the groups are of the scale that most pictures have, and tones of another count as
undeclared. A group covers the tones that occur in it: a tone of too few patients is left out of every group,
and reported. Its pictures still train the global model.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from clients.data.errors import SubgroupError
from clients.new_job.manifests import Manifests
from registry.bundle.skin_tone import SCALES
from registry.bundle.text import nearest
from training.data.settings import SplitConfig
from training.data.subgroups import ColumnSubgroups, ToneSubgroups
from training.privacy.settings import PrivacyConfig

FEWEST_PATIENTS = PrivacyConfig().min_count  # labelled, of a tone that a group may name
ENOUGH_PATIENTS = round(FEWEST_PATIENTS / SplitConfig().calibration)  # as many in calibration at one client

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
        by_tone: labelled patients of each tone of the scale.
        others: pictures whose tone is of another scale.
        undeclared: pictures without a tone.
    """

    scale: str
    by_tone: Mapping[str, int]
    others: int
    undeclared: int

    @property
    def left_out(self) -> dict[str, int]:
        """The tones that occur and are of too few patients for any group, with their labelled patients."""
        named = {tone for tones in self.groups.values() for tone in tones}
        return {tone: n for tone, n in self.by_tone.items() if n and tone not in named}

    @property
    def patients(self) -> dict[str, int]:
        """Labelled patients of each group with all its tones; one of several tones counts for each."""
        return {name: sum(self.by_tone[tone] for tone in tones) for name, tones in GROUPS[self.scale].items()}

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups that are proposed, from light to dark.

        Each is of its tones of enough patients or, where there are none, of those that are counted at all.
        """

        def of_at_least(least: int, tones: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(tone for tone in tones if self.by_tone[tone] >= least)

        kept = {
            name: of_at_least(ENOUGH_PATIENTS, tones) or of_at_least(FEWEST_PATIENTS, tones)
            for name, tones in GROUPS[self.scale].items()
        }
        return {name: tones for name, tones in kept.items() if tones}

    @property
    def described(self) -> str:
        """The groups as a line: `light (1, 2), dark (5)`."""
        return ", ".join(f"{name} ({', '.join(tones)})" for name, tones in self.groups.items())

    @property
    def absent(self) -> tuple[str, ...]:
        """Groups of which there is no labelled picture."""
        return tuple(name for name, count in self.patients.items() if not count)

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

    def patients(tone: str) -> int:
        return manifests.patients_of(
            [
                bool(row.label) and row.skin_tone_scale == scale and row.skin_tone == tone
                for row in manifests.rows
            ]
        )

    return Tones(
        scale=scale,
        by_tone={tone: patients(tone) for tone in SCALES[scale]},
        others=sum(count for name, count in found.items() if name != scale),
        undeclared=sum(not row.skin_tone for row in manifests.rows),
    )


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
