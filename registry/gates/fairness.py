"""The gate `spread`: max - min accuracy over subgroups at most `limit` (paper 003).

Each subgroup counts with the version that answers for it in the release: its own where it has one,
the global one elsewhere. With p1 the best and p2 the worst accuracy, and (l, u) the 95 % interval of
each (of disjoint pictures), the spread is d = p1 - p2 and its interval

    low  = max(0, d - sqrt((p1 - l1)^2 + (u2 - p2)^2))
    high = d + sqrt((u1 - p1)^2 + (p2 - l2)^2)

MOVER (Zou & Donner 2008, Statistics in Medicine 27, 1693-1702). Departures: low is cut at 0, since a
spread is never negative. The verdict goes by d alone; the interval is shown and kept.

A subgroup without a figure is refused; fewer than two subgroups with figures cannot be compared, so that
the gate does not apply. Accuracy may be alike where nothing malignant was tested: that is said, and judged by
`required_subgroups`.

The gate `parity`: the served graph answers as the trained network does, up to `limit` in any probability.

Each bundle tells the largest difference that was found when it was exported. A version that does not tell it
is refused: it was exported before bundles told, or was never compared.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, SubgroupFigure, never_tested, worst_of
from registry.gates.gate import ROUNDING, Case, GateConfig, difference_interval, for_patients, stand


class SpreadGate(GateConfig):
    """How much worse than the best served subgroup another one may fare."""

    name: Literal["spread"] = "spread"
    limit: float = Field(0.10, ge=0, le=1)  # of max - min accuracy over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "test accuracy of the subgroup served best minus that of the one served worst: at most "
            f"{self.limit:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand(case.manifests)
        untested = tuple(name for name, standing in standings.items() if standing is None)
        tested = [standing for standing in standings.values() if standing is not None]
        if untested:
            return self._never_tested(untested)
        if len(tested) < 2:
            shown = f"only {tested[0].subgroup}" if tested else "none"
            detail = f"it compares two subgroups or more, and the test figures name {shown}"
            return GateResult(gate=self.name, verdict="not applicable", limit=self.limit, detail=detail)
        empty = tuple(
            name
            for name, row in for_patients(case.manifests).items()
            if row is not None and row.n_malignant == 0
        )
        best = max(tested, key=lambda standing: standing.value)
        worst = min((one for one in tested if one is not best), key=lambda standing: standing.value)
        return self._compared(best, worst, empty)

    def _never_tested(self, untested: tuple[str, ...]) -> GateResult:
        findings = [
            GateFinding(
                subgroup=name, measure="accuracy", limit=self.limit, verdict="refused", note="never tested"
            )
            for name in untested
        ]
        return GateResult(
            gate=self.name,
            verdict="refused",
            limit=self.limit,
            untested=untested,
            findings=tuple(findings),
            detail=f"{never_tested(untested, 'accuracy')}, so no value stands against the limit "
            f"{self.limit:.3f}. Test {'them' if len(untested) > 1 else 'it'}, {OVERRIDE}",
        )

    def _compared(self, best: SubgroupFigure, worst: SubgroupFigure, empty: tuple[str, ...]) -> GateResult:
        value = best.value - worst.value
        interval = mover(best, worst)
        refused = value > self.limit + ROUNDING
        sureness = (
            "no interval" if interval is None else f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}"
        )
        detail = (
            f"accuracy is {worst.value:.3f} for {worst.subgroup} (n {worst.n}) and {best.value:.3f} for "
            f"{best.subgroup} (n {best.n}), {value:.3f} apart ({sureness}); the limit is {self.limit:.3f}"
        )
        if empty:
            detail += (
                f"; of {', '.join(empty)} no malignant picture was tested, which this gate does not ask for"
            )
        if refused:
            detail += f". Improve the model for {worst.subgroup}, {OVERRIDE}"
        finding = GateFinding(
            subgroup=worst.subgroup,
            measure=f"accuracy below that for {best.subgroup}",
            value=value,
            n=worst.n,
            interval=interval,
            limit=self.limit,
            verdict="refused" if refused else "passed",
        )
        return GateResult(
            gate=self.name,
            verdict=finding.verdict,
            value=value,
            limit=self.limit,
            interval=interval,
            best=best,
            worst=worst,
            findings=(finding,),
            detail=detail,
        )


def mover(best: SubgroupFigure, worst: SubgroupFigure) -> tuple[float, float] | None:
    """The interval of best - worst from the intervals of both."""
    found = difference_interval(best, worst)
    return None if found is None else (max(0.0, found[0]), found[1])


class ParityGate(GateConfig):
    """How far the exported graph's probabilities may lie from those of torch."""

    name: Literal["parity"] = "parity"
    limit: float = Field(ge=0, le=1)  # of the largest difference in a probability

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "largest difference in a probability between ONNX and torch at export, of every version: at most "
            f"{self.limit:.2g}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        found = {one.subgroup.name: one.parity for one in case.manifests}
        findings = tuple(
            GateFinding(
                subgroup=name,
                measure="difference of ONNX and torch",
                value=value,
                limit=self.limit,
                verdict="refused" if value is None or value > self.limit else "passed",
                note="never compared" if value is None else "",
            )
            for name, value in found.items()
        )
        unknown = [name for name, value in found.items() if value is None]
        known = {name: value for name, value in found.items() if value is not None}
        far = {name: value for name, value in known.items() if value > self.limit}
        said = []
        if unknown:
            said.append(f"the bundle for {', '.join(unknown)} does not tell how far ONNX and torch differ")
        if far:
            said.append(
                f"ONNX and torch differ by {', '.join(f'{v:.2g} for {name}' for name, v in far.items())}"
            )
        if not said:
            largest = max(known, key=lambda name: known[name])
            said.append(f"ONNX and torch differ by {known[largest]:.2g} at most, for {largest}")
        detail = f"{'; '.join(said)}; at most {self.limit:.2g} is allowed"
        if unknown or far:
            detail += f". Export the model anew, {OVERRIDE}"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=max(known.values()) if known else None,
            limit=self.limit,
            untested=tuple(unknown),
            findings=findings,
            detail=detail,
        )
