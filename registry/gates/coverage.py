"""The gate `coverage`: prediction sets of every subgroup hold the right class as often as promised - `slack`.

Each subgroup is measured against the promise of the version that answers for it, 1 - alpha. The global
version promises coverage over all pictures together; this gate asks for it in every subgroup. A subgroup
without the figure is refused; one whose version promises nothing (its sets are full) is not applicable.
"""

from typing import Literal

from pydantic import Field

from registry.bundle.labels import GLOBAL
from registry.bundle.manifest import BundleManifest
from registry.gate_report import OVERRIDE, GateFinding, GateResult, SubgroupFigure, never_tested, worst_of
from registry.gates.gate import Case, GateConfig, answers_for, for_everybody, stand_or_total
from registry.gates.threshold import lies


class CoverageGate(GateConfig):
    """How much less often than promised a prediction set may hold the right class in any subgroup."""

    name: Literal["coverage"] = "coverage"
    slack: float = Field(ge=0, le=1)  # of the coverage promised

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "share of every subgroup's test pictures whose prediction set holds the right class: at least "
            f"what the version promises minus {self.slack:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        answering = answers_for(case.manifests) or {GLOBAL: for_everybody(case.manifests)}
        standings = stand_or_total(case.manifests, "coverage")
        findings = tuple(self._finding(name, one, standings[name]) for name, one in answering.items())
        tested = [(one, standings[one.subgroup]) for one in findings if one.limit is not None]
        outside = [
            f"{standing} (asked for: {one.limit:.3f})"
            for one, standing in tested
            if standing is not None and one.verdict == "refused"
        ]
        untested = tuple(one.subgroup for one, standing in tested if standing is None)
        said = [never_tested(untested, "coverage")] if untested else []
        if outside:
            said.append(f"coverage is {', '.join(outside)}")
        if not tested:
            said.append("no version promises a coverage: their prediction sets are full")
        if not said:
            said.append("every subgroup is covered as promised")
        worst = _worst(findings)
        detail = f"{'; '.join(said)}; the slack is {self.slack:.3f}"
        if untested or outside:
            detail += f". Calibrate anew, {OVERRIDE}"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=worst.limit if worst else None,
            interval=worst.interval if worst else None,
            worst=standings[worst.subgroup] if worst else None,
            untested=untested,
            findings=findings,
            detail=detail,
        )

    def _finding(self, name: str, manifest: BundleManifest, standing: SubgroupFigure | None) -> GateFinding:
        conformal = manifest.conformal
        if conformal.guarantee == "none":
            note = "no coverage is promised; the prediction set is full"
            return GateFinding(subgroup=name, measure="coverage", verdict="not applicable", note=note)
        limit = max(0.0, 1 - conformal.alpha - self.slack)
        said = {"subgroup": name, "measure": "coverage", "bound": "at least", "limit": limit}
        if standing is None:
            return GateFinding(**said, verdict="refused", note="never tested")
        passes = lies(standing.value, "at least", limit)
        return GateFinding(
            **said,
            value=standing.value,
            n=standing.n,
            interval=standing.interval,
            verdict="passed" if passes else "refused",
        )


def _worst(findings: tuple[GateFinding, ...]) -> GateFinding | None:
    """The one that lies furthest below its limit, or least above."""
    measured = [
        (one.value - one.limit, k)
        for k, one in enumerate(findings)
        if one.value is not None and one.limit is not None
    ]
    return findings[min(measured)[1]] if measured else None
