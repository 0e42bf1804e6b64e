"""Pictures of no subgroup, counted by why they are in none."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clients.data.manifests.manifest import Row
from training.data.unused import NO_TONE, NO_VALUE, OTHER_VALUE, SCALE, TONE


@dataclass(frozen=True)
class Undeclared:
    """How many pictures no subgroup holds, and why; all 0 in a job without subgroups.

    Attributes:
        no_tone: pictures without a declared tone; with subgroups by a column, those whose column is empty.
        other_scales: pictures whose tone is on a scale that the job does not name, by scale.
        other_values: pictures whose tone is on a scale that the job names, and in none of its groups: by
            scale, then by value. With subgroups by a column: by the column, values of unseen sources alone.
    """

    no_tone: int = 0
    other_scales: Mapping[str, int] = field(default_factory=dict)
    other_values: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of them."""
        values = sum(sum(counts.values()) for counts in self.other_values.values())
        return self.no_tone + sum(self.other_scales.values()) + values

    @classmethod
    def by_tone(cls, rows: Sequence[Row], named: Mapping[str, Sequence[str]]) -> "Undeclared":
        """Counts the rows whose tone no group names.

        Args:
            rows: all pictures.
            named: the tones that are in a group, by scale, as `read_scale` and `read_tone` spell them.
        """
        declared = Counter((row.skin_tone_scale, row.skin_tone) for row in rows if row.skin_tone)
        others = {
            (scale, tone): count
            for (scale, tone), count in sorted(declared.items())
            if tone not in named.get(scale, ())
        }
        scales: Counter[str] = Counter()
        values: dict[str, dict[str, int]] = {}
        for (scale, tone), count in others.items():
            if scale in named:
                values.setdefault(scale, {})[tone] = count
            else:
                scales[scale] += count
        return cls(len(rows) - declared.total(), dict(scales), values)

    @classmethod
    def by_column(cls, values: Sequence[str], column: str, names: Sequence[str]) -> "Undeclared":
        """Counts the rows whose value of `column` is empty, or names no subgroup."""
        others = Counter(value for value in values if value and value not in names)
        return cls(values.count(""), other_values={column: dict(sorted(others.items()))} if others else {})

    def reasons(self, *, by_tone: bool) -> dict[str, int]:
        """The counts by reason, as `training.data.unused.Unused.undeclared` names them; none of 0."""
        counts = {NO_TONE if by_tone else NO_VALUE: self.no_tone}
        counts |= {f"{SCALE}{scale}": count for scale, count in self.other_scales.items()}
        for scale, values in self.other_values.items():
            if by_tone:
                counts |= {f"{TONE}{scale} {tone}": count for tone, count in values.items()}
            else:
                counts[OTHER_VALUE] = sum(values.values())
        return {reason: count for reason, count in counts.items() if count}
