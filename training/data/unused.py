"""Pictures that a job does not use, or uses in no subgroup: counts by reason, and how they are reported.

It is reported in the same words by `--check`, the log, the report and the summary of a run. Over a network a
hospital sends the coordinator these counts with its census, and no file names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from registry.bundle.skin_tone import SCALES

NO_TONE, NO_VALUE, OTHER_VALUE = "no_tone", "no_value", "other_value"
SCALE, TONE = "scale ", "tone "  # of which no group names a tone, or this one: `scale monk`, `tone monk 4`
_UNDECLARED = frozenset(
    {
        *(NO_TONE, NO_VALUE, OTHER_VALUE),
        *(f"{SCALE}{scale}" for scale in SCALES),
        *(f"{TONE}{scale} {tone}" for scale, tones in SCALES.items() for tone in tones),
    }
)
_MOST = 2**53  # beyond it a number of pictures is none
_PREFIX, _UNDECLARED_PREFIX = "unused.", "unused.undeclared."


@dataclass(frozen=True)
class Unused:
    """The number of pictures that are not used, by reason.

    Attributes:
        where: the job's `where`, or that of their source, does not keep them.
        label_map: the job's `label_map`, or that of their source, drops their label.
        broken: they are missing or cannot be decoded.
        nobody: no client holds them: clients are subgroups, and they belong to none, or they are for
            training only and models are judged by other pictures of their lesion.
        beyond_slots: their lesion has more pictures than a case has slots.
        listed: how many the manifests list.
        causes: of `broken`, by what is wrong with them; known to their owner alone.
        reading: what reading the manifests took for granted, matched or left out; for their owner alone:
            it quotes them.
        handed_on: the same without a word of theirs, for summaries and reports, which are handed on.
        undeclared: of the pictures that are used, those in no subgroup, by reason: `no_tone`; `no_value` or
            `other_value` in the column that names subgroups; `scale monk`, `tone monk 4`.
    """

    where: int
    label_map: int
    broken: int
    nobody: int
    beyond_slots: int = 0
    listed: int = 0
    causes: Mapping[str, int] = field(default_factory=dict)
    reading: tuple[str, ...] = ()
    handed_on: tuple[str, ...] = ()
    undeclared: Mapping[str, int] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, int]:
        """How many by each reason, without those that hold for none."""
        counts = {name: int(getattr(self, name)) for name in _REASONS}
        return {name: n for name, n in counts.items() if n}

    @property
    def all(self) -> int:
        """How many are not used."""
        return sum(self.reasons.values())

    def record(self) -> dict[str, Any]:
        """The counts as the summary of a run has them."""
        return {
            "listed": self.listed,
            "not_used": self.reasons,
            **({"causes": dict(self.causes)} if self.causes else {}),
            **({"reading": list(self.handed_on)} if self.handed_on else {}),
            "undeclared": dict(self.undeclared),
        }

    def scalars(self) -> dict[str, float]:
        """The counts as numbers of a message: what a hospital tells of them, and nothing of single files."""
        counts = {"listed": self.listed, **self.reasons}
        told = {f"{_PREFIX}{name}": float(n) for name, n in counts.items()}
        return told | {f"{_UNDECLARED_PREFIX}{name}": float(n) for name, n in self.undeclared.items()}

    @classmethod
    def of_scalars(cls, scalars: Mapping[str, float]) -> "Unused | None":
        """The counts in a message, other names ignored; None where the sender's version reports none.

        Raises:
            ValueError: naming what is no number of pictures, or more than there are.
        """
        if f"{_PREFIX}listed" not in scalars:
            return None
        listed, where, label_map, broken, nobody, beyond_slots = (
            _number(scalars, f"{_PREFIX}{name}") for name in ("listed", *_REASONS)
        )
        undeclared = {
            name: n for name in sorted(_UNDECLARED) if (n := _number(scalars, f"{_UNDECLARED_PREFIX}{name}"))
        }
        told = cls(where, label_map, broken, nobody, beyond_slots, listed, undeclared=undeclared)
        if told.all + sum(undeclared.values()) > listed:
            raise ValueError(
                f"{told.all} pictures not used and {sum(undeclared.values())} in no subgroup, of {listed}"
            )
        return told

    def lines(self, *, to_owner: bool = True) -> list[str]:
        """What reading them took for granted, and a sentence on pictures not used or in no subgroup."""
        reading = self.reading if to_owner else self.handed_on
        return [*reading, *self._not_used(), *self._in_no_subgroup()]

    def _not_used(self) -> Iterator[str]:
        if self.all:
            why = "; ".join(f"{n} {_REASONS[name]}{self._why(name)}" for name, n in self.reasons.items())
            yield f"{self.all} of {self.listed} pictures are not used: {why}"

    def _why(self, reason: str) -> str:
        if reason != "broken" or not self.causes:
            return ""
        return f" ({', '.join(f'{cause}: {n}' for cause, n in self.causes.items())})"

    def _in_no_subgroup(self) -> Iterator[str]:
        if self.undeclared:
            why = "; ".join(f"{n} {_undeclared(name)}" for name, n in self.undeclared.items())
            yield (
                f"{sum(self.undeclared.values())} of {self.listed - self.all} pictures that are used are in "
                f"no subgroup: {why}. They train the global model, no subgroup's, and count as undeclared"
            )


_REASONS = {
    "where": "that `where` does not keep",
    "label_map": "whose label `label_map` leaves out",
    "broken": "missing or broken",
    "nobody": "that no client holds (in no subgroup where clients are subgroups, or `train_only` beside "
    "pictures that models are judged by)",
    "beyond_slots": "beyond the `slots` of `data.cases`",
}

_IN_NO_SUBGROUP = {
    NO_TONE: "of no declared tone",
    NO_VALUE: "without a value in the column that names subgroups",
    OTHER_VALUE: "of a value that only pictures have on which nobody trains",
}


def _number(scalars: Mapping[str, float], name: str) -> int:
    """A number of pictures; 0 where there is none.

    Raises:
        ValueError: it is none.
    """
    value = scalars.get(name, 0)
    if not 0 <= value <= _MOST or value != int(value):
        raise ValueError(f"{name} is {value!r}, which is no number of pictures")
    return int(value)


def _undeclared(reason: str) -> str:
    """A reason to be in no subgroup, in words."""
    if reason.startswith(SCALE):
        return f"declared on the scale {reason.removeprefix(SCALE)}, of which no group names a tone"
    if reason.startswith(TONE):
        scale, _, tone = reason.removeprefix(TONE).partition(" ")
        return f"of tone {tone} on the scale {scale}, which no group names"
    return _IN_NO_SUBGROUP[reason]


@runtime_checkable
class HasUnused(Protocol):
    """A dataset that knows which of its pictures are not used; others need not."""

    @property
    def unused(self) -> Unused | None:
        """The pictures that are not used, and those in no subgroup; None where it does not tell."""


def unused_of(dataset: object) -> Unused | None:
    """What is not used of a dataset's pictures; None where it does not know."""
    return dataset.unused if isinstance(dataset, HasUnused) else None
