"""The gate `risk`: of the answers given to any subgroup, no more were wrong than its version allows itself.

Each subgroup is measured against `target_risk` of the version that answers for it, and refused where the
lower end of the 95 % interval lies above the target: then the promise is broken for certain. The upper end
would be the wrong judge: 3 wrong of 60 answers reach to 0.139, so that a target of 0.1 would refuse nearly
every honest test of a rare subgroup. The promise itself is made by an upper limit, at calibration. Without an
interval the figure decides.

A subgroup of which nobody is answered has no such share: not applicable, `answered` judges it. One without
the figure is refused.
"""

from typing import Literal

from registry.bundle.manifest.schema import GLOBAL, BundleManifest
from registry.gate_report import OVERRIDE, GateFinding, GateResult, SubgroupFigure, never_tested, worst_of
from registry.gates.case import Case
from registry.gates.figures import answers_for, for_everybody, stand_or_total
from registry.gates.gate import GateConfig
from registry.gates.threshold import lies


class RiskGate(GateConfig):
    """Whether the answers given are as seldom wrong as each version allows."""

    name: Literal["risk"] = "risk"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "lower end of the 95 % interval of the share of wrong answers among those given to every "
            "subgroup: at most the target of the version"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        answering = answers_for(case.manifests) or {GLOBAL: for_everybody(case.manifests)}
        standings = stand_or_total(case.manifests, "reported_risk")
        answered = stand_or_total(case.manifests, "reported")
        findings = tuple(
            self._finding(name, one, standings[name], answered[name]) for name, one in answering.items()
        )
        broken = [one for one in findings if one.verdict == "refused"]
        measured = [one for one in findings if one.value is not None]
        if broken:
            names = ", ".join(one.subgroup for one in broken)
            detail = (
                f"{'; '.join(map(_said, broken))}. Calibrate anew on more pictures of {names}, {OVERRIDE}"
            )
        elif measured:
            detail = "no subgroup is shown to get more wrong answers than its version allows"
        else:
            detail = "nobody is answered, so no answer is wrong"
        worst = max(measured, key=lambda one: (one.value or 0.0) - (one.limit or 0.0)) if measured else None
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=worst.limit if worst else None,
            interval=worst.interval if worst else None,
            worst=standings[worst.subgroup] if worst else None,
            untested=tuple(one.subgroup for one in broken if one.value is None),
            findings=findings,
            detail=detail,
        )

    def _finding(
        self,
        name: str,
        manifest: BundleManifest,
        risk: SubgroupFigure | None,
        answered: SubgroupFigure | None,
    ) -> GateFinding:
        measure, target = "share of wrong answers", manifest.abstention.target_risk
        if risk is None:
            nobody = answered is not None and not answered.value
            return GateFinding(
                subgroup=name,
                measure=measure,
                limit=target,
                verdict="not applicable" if nobody else "refused",
                note="nobody is answered" if nobody else "never tested",
            )
        least = risk.value if risk.interval is None else risk.interval[0]
        return GateFinding(
            subgroup=name,
            measure=measure,
            value=risk.value,
            n=risk.n,
            interval=risk.interval,
            limit=target,
            verdict="passed" if lies(least, "at most", target) else "refused",
        )


def _said(finding: GateFinding) -> str:
    if finding.value is None:
        return never_tested((finding.subgroup,), "share of wrong answers")
    interval = finding.interval
    sure = "no interval" if interval is None else f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}"
    return (
        f"of the answers for {finding.subgroup}, {finding.value:.3f} are wrong ({sure}), where at most "
        f"{finding.limit:.3f} are allowed"
    )
