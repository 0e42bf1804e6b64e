"""What is known of a model in a round that some of the clients judged: figures, and who they stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.bundle.metrics.estimate import number
from registry.bundle.metrics.limits import Limits

Intervals = Mapping[str, Sequence[float] | None]


@dataclass(frozen=True)
class SampledFigures:
    """Figures of some pictures at some clients, standing for those of all.

    Attributes:
        n: pictures that were counted.
        clients: how many clients counted any; None where only their sum is known.
        values: figures by name; None where undefined.
        intervals: the ends of their 95 % intervals, of the error of having asked no others; None where the
            figure is undefined or nothing is known.
    """

    n: int
    clients: int | None
    values: Mapping[str, float | None]
    intervals: Intervals

    @classmethod
    def of(cls, n: int, clients: int | None, limits: Mapping[str, Limits]) -> "SampledFigures":
        """The figures with these limits."""
        values = {name: number(found.value) for name, found in limits.items()}
        return cls(n, clients, values, {name: found.ends() for name, found in limits.items()})

    def low(self, figure: str) -> float | None:
        """The lower end of a figure's interval; None where there is none."""
        ends = self.intervals.get(figure)
        return None if ends is None else ends[0]

    def row(self) -> dict[str, float | None]:
        """As the figures of a round that everybody judged."""
        return {"n": float(self.n), **self.values}

    def to_json(self) -> dict[str, Any]:
        """Who counted, and the intervals."""
        return {"n": self.n, "clients": self.clients, "intervals": dict(self.intervals)}


@dataclass(frozen=True)
class SampledRound:
    """A round's evaluation by a cohort.

    Attributes:
        asked: the clients that were asked, in client order.
        answered: how many of them gave counts.
        of: how many could have been asked.
        overall: figures over all subgroups.
        by_subgroup: the same of each of which pictures were counted.
        missed: subgroups that clients hold pictures of, and of which none were counted.
    """

    asked: tuple[str, ...]
    answered: int
    of: int
    overall: SampledFigures
    by_subgroup: Mapping[str, SampledFigures]
    missed: tuple[str, ...]

    @property
    def note(self) -> str:
        """For whoever watches."""
        missed = f", none of {', '.join(self.missed)}" if self.missed else ""
        return f"judged by {self.answered} of {self.of}{missed}"

    def to_json(self) -> dict[str, Any]:
        """The entry `evaluation` of a line of `metrics.jsonl`."""
        return {
            "asked": list(self.asked),
            "answered": self.answered,
            "of": self.of,
            "missed": list(self.missed),
            **self.overall.to_json(),
            "by_subgroup": {name: found.to_json() for name, found in self.by_subgroup.items()},
        }
