"""The gate that every release passes: `spread`, max - min accuracy over subgroups (paper 003).

Each subgroup counts with the version that answers for it in the release: its own where it has one,
the global one elsewhere. With p1 the best and p2 the worst accuracy, and (l, u) the 95 % interval of
each (bootstrap by lesion, from disjoint pictures), the spread is d = p1 - p2 and its interval

    low  = max(0, d - sqrt((p1 - l1)^2 + (u2 - p2)^2))
    high = d + sqrt((u1 - p1)^2 + (p2 - l2)^2)

MOVER (Zou & Donner 2008, Statistics in Medicine 27, 1693-1702). Departures: low is cut at 0, since a
spread is never negative. The verdict goes by d alone; the interval is shown and kept.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeGuard

from pydantic import Field

from registry.bundle.frozen import Frozen
from registry.bundle.schema import GLOBAL, UNDECLARED, BundleManifest

Verdict = Literal["passed", "refused", "not applicable"]

_ROUNDING = 1e-9  # 0.8 - 0.7 is a little over 0.1 in floating point, and yet within a limit of 0.1


class Standing(Frozen):
    """How one subgroup fared in the test.

    Attributes:
        subgroup: its name.
        value: accuracy of the version that answers for it.
        n: the pictures tested.
        interval: the 95 % interval of `value`, where there is one.
    """

    subgroup: str
    value: float
    n: int
    interval: tuple[float, float] | None = None


class GateResult(Frozen):
    """What one gate says of a release.

    Attributes:
        gate: the gate's name.
        verdict: `not applicable` passes, and says why.
        value: what was measured; None where nothing could be.
        limit: the largest value that passes.
        interval: the 95 % interval of `value`; None where a subgroup has none.
        best: the subgroup served best.
        worst: the subgroup served worst.
        untested: subgroups without a test figure; one is enough to refuse.
        detail: all of it in a sentence, with what to do.
    """

    gate: str
    verdict: Verdict
    value: float | None = None
    limit: float
    interval: tuple[float, float] | None = None
    best: Standing | None = None
    worst: Standing | None = None
    untested: tuple[str, ...] = ()
    detail: str


class GateReport(Frozen):
    """What every gate says of a release; kept with the promotion."""

    results: tuple[GateResult, ...]

    @property
    def refused(self) -> bool:
        """Whether any gate refuses."""
        return any(result.verdict == "refused" for result in self.results)

    @property
    def detail(self) -> str:
        """What the gates that refuse say, or all of them where none does."""
        telling = [result for result in self.results if result.verdict == "refused"] or self.results
        return "; ".join(f"gate {result.gate} ({result.verdict}): {result.detail}" for result in telling)


class SpreadGate(Frozen):
    """How much worse than the best served subgroup another one may fare."""

    name: Literal["spread"] = "spread"
    limit: float = Field(0.10, ge=0, le=1)  # of max - min accuracy over subgroups

    def judge(self, manifests: Sequence[BundleManifest]) -> GateResult:
        """What the gate says of a release with these manifests, the global one among them."""
        standings = stand(manifests)
        untested = tuple(name for name, standing in standings.items() if standing is None)
        tested = [standing for standing in standings.values() if standing is not None]
        if untested:
            return self._never_tested(untested)
        if len(tested) < 2:
            shown = f"only {tested[0].subgroup}" if tested else "none"
            return GateResult(
                gate=self.name,
                verdict="not applicable",
                limit=self.limit,
                detail=f"it compares two subgroups or more, and the test figures name {shown}",
            )
        best = max(tested, key=lambda standing: standing.value)
        worst = min(tested, key=lambda standing: standing.value)
        return self._compared(best, worst)

    def _never_tested(self, untested: tuple[str, ...]) -> GateResult:
        many = len(untested) > 1
        named = ", ".join(untested)
        return GateResult(
            gate=self.name,
            verdict="refused",
            limit=self.limit,
            untested=untested,
            detail=f"subgroup{'s' if many else ''} {named} {'were' if many else 'was'} never tested: the "
            f"version that answers has no test accuracy for {'them' if many else 'it'}, so no value stands "
            f"against the limit {self.limit:.3f}. Test {'them' if many else 'it'}, or override with "
            "--override-gates --reason",
        )

    def _compared(self, best: Standing, worst: Standing) -> GateResult:
        value = best.value - worst.value
        interval = mover(best, worst)
        refused = value > self.limit + _ROUNDING
        sureness = (
            "no interval" if interval is None else f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}"
        )
        detail = (
            f"accuracy is {worst.value:.3f} for {worst.subgroup} (n {worst.n}) and {best.value:.3f} for "
            f"{best.subgroup} (n {best.n}), {value:.3f} apart ({sureness}); the limit is {self.limit:.3f}"
        )
        if refused:
            detail += f". Improve the model for {worst.subgroup}, or override with --override-gates --reason"
        return GateResult(
            gate=self.name,
            verdict="refused" if refused else "passed",
            value=value,
            limit=self.limit,
            interval=interval,
            best=best,
            worst=worst,
            detail=detail,
        )


def stand(manifests: Sequence[BundleManifest]) -> dict[str, Standing | None]:
    """How each subgroup of a release fared, by name; None where it was never tested.

    A model that was tested on nobody stands as `global`; one that was tested, on no subgroup, as nothing.
    """
    own = {one.subgroup.name: one for one in manifests if not one.subgroup.is_global}
    everybody = next(one for one in manifests if one.subgroup.is_global)
    if not own and not everybody.metrics:
        return {GLOBAL: None}
    named = [name for name in figures_by_subgroup(everybody) if name not in (UNDECLARED, GLOBAL)]
    return {name: _standing(own.get(name, everybody), name) for name in sorted({*own, *named})}


def mover(best: Standing, worst: Standing) -> tuple[float, float] | None:
    """The interval of best - worst from the intervals of both."""
    if best.interval is None or worst.interval is None:
        return None
    p1, (l1, u1) = best.value, best.interval
    p2, (l2, u2) = worst.value, worst.interval
    d = p1 - p2
    return max(0.0, d - math.hypot(p1 - l1, u2 - p2)), d + math.hypot(u1 - p1, p2 - l2)


def figures_by_subgroup(manifest: BundleManifest) -> Mapping[str, Any]:
    """What the manifest's test says of each subgroup; nothing where it says it in no known form."""
    found = manifest.metrics.get("by_subgroup")
    return found if isinstance(found, Mapping) else {}


def _standing(manifest: BundleManifest, name: str) -> Standing | None:
    figures = figures_by_subgroup(manifest).get(name)
    if not isinstance(figures, Mapping):
        return None
    value, n = figures.get("accuracy"), figures.get("n")
    if not is_share(value) or not isinstance(n, int) or isinstance(n, bool) or n < 1:
        return None
    return Standing(subgroup=name, value=float(value), n=n, interval=interval_of(figures, "accuracy"))


def interval_of(figures: Mapping[str, Any], figure: str) -> tuple[float, float] | None:
    """The interval of a figure that is a share; None where there is none in a known form."""
    intervals = figures.get("intervals")
    ends = intervals.get(figure) if isinstance(intervals, Mapping) else None
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(is_share(end) for end in ends):
        return None
    low, high = float(ends[0]), float(ends[1])
    return (low, high) if low <= high else None


def is_share(value: Any) -> TypeGuard[float]:
    """Whether a figure is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
