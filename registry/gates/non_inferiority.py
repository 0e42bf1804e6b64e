"""The gate `no_worse`: no subgroup fares worse than under the running release by more than `delta`.

Compared are accuracy, balanced accuracy, malignant sensitivity, and sensitivity at the working point where
the running release has one. With p1 a subgroup's figure under the running release and p2 the one under the
release to be, each from the test of the version that answers for it, the loss is d = p1 - p2. Beside it
stands the 95 % interval of the difference by MOVER, which takes the two tests for independent: where they
used the same pictures, as tests of two models usually do, the true interval is narrower. Bundles do not tell
on how many pictures two releases differ, which a paired test would need. The verdict goes by d alone; the
interval is shown and kept.

Where nothing runs yet, or a subgroup had no figure before, there is nothing to compare and the gate does not
apply. A subgroup that had a figure and has none now is refused, and so are labels that differ: figures of
other questions do not compare.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, get_args

from pydantic import Field

from registry.bundle.manifest import BundleManifest
from registry.gate_report import OVERRIDE, GateFinding, GateResult, SubgroupFigure, worst_of
from registry.gates.gate import ROUNDING, Case, GateConfig, difference_interval, for_everybody, stand_or_total

Compared = Literal["accuracy", "balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold"]
ALL_COMPARED: tuple[Compared, ...] = get_args(Compared)


class NoWorseGate(GateConfig):
    """How much any subgroup may lose by the promotion."""

    looks_at_running: ClassVar[bool] = True
    name: Literal["no_worse"] = "no_worse"
    delta: float = Field(ge=0, le=1)  # the largest loss of any subgroup
    figures: tuple[Compared, ...] = Field(ALL_COMPARED, min_length=1)

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        named = " and ".join(_called(figure) for figure in dict.fromkeys(self.figures))
        return (
            f"test {named} of every subgroup under the running release minus that under the new one: at most "
            f"{self.delta:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        if case.unreadable:
            return self._result(
                "refused",
                f"the running release cannot be read, so that nothing compares: {case.unreadable}. Put it "
                f"right as `dermfed-registry verify` says, {OVERRIDE}",
            )
        if not case.running:
            return self._result(
                "not applicable", "no release runs under this alias yet, so nothing can get worse"
            )
        before, now = _codes(case.running), _codes(case.manifests)
        if before != now:
            return self._result(
                "refused",
                f"the running release answers {before} and this one would answer {now}, so that their "
                f"figures do not compare. Promote under another alias, {OVERRIDE}",
            )
        findings = tuple(
            finding for figure in dict.fromkeys(self.figures) for finding in self._findings(case, figure)
        )
        worse = [one for one in findings if one.verdict == "refused"]
        losses = [one for one in findings if one.value is not None]
        worst = max(losses, key=lambda one: one.value or 0.0) if losses else None
        if worse:
            detail = (
                f"{'; '.join(_said(one) for one in worse)}; a loss of at most {self.delta:.3f} is allowed. "
                f"Improve the model for {', '.join(dict.fromkeys(one.subgroup for one in worse))}, {OVERRIDE}"
            )
        elif worst is None:
            detail = "no subgroup has a figure under the running release, so nothing compares"
        else:
            detail = f"the largest loss: {_said(worst)}; at most {self.delta:.3f} is allowed"
        return self._result(worst_of(findings), detail, findings, worst)

    def _result(
        self,
        verdict: Literal["passed", "refused", "not applicable"],
        detail: str,
        findings: tuple[GateFinding, ...] = (),
        worst: GateFinding | None = None,
    ) -> GateResult:
        return GateResult(
            gate=self.name,
            verdict=verdict,
            value=worst.value if worst else None,
            limit=self.delta,
            interval=worst.interval if worst else None,
            untested=tuple(
                dict.fromkeys(
                    one.subgroup for one in findings if one.verdict == "refused" and one.value is None
                )
            ),
            findings=findings,
            detail=detail,
        )

    def _findings(self, case: Case, figure: Compared) -> Iterator[GateFinding]:
        before = stand_or_total(case.running, figure)
        now = stand_or_total(case.manifests, figure)
        for name in sorted({*before, *now}):
            yield self._finding(name, _called(figure), before.get(name), now.get(name))

    def _finding(
        self, name: str, called: str, before: SubgroupFigure | None, now: SubgroupFigure | None
    ) -> GateFinding:
        measure = f"loss of {called}"
        if before is None:
            note = "no figure under the running release"
            return GateFinding(subgroup=name, measure=measure, verdict="not applicable", note=note)
        if now is None:
            note = f"{before.value:.3f} under the running release, and never tested now"
            return GateFinding(subgroup=name, measure=measure, limit=self.delta, verdict="refused", note=note)
        loss = before.value - now.value
        return GateFinding(
            subgroup=name,
            measure=measure,
            value=loss,
            n=now.n,
            interval=difference_interval(before, now),
            limit=self.delta,
            verdict="refused" if loss > self.delta + ROUNDING else "passed",
            note=f"{before.value:.3f} -> {now.value:.3f}",
        )


def _called(figure: Compared) -> str:
    return (
        "sensitivity at the working point"
        if figure == "sensitivity_at_threshold"
        else figure.replace("_", " ")
    )


def _codes(manifests: Sequence[BundleManifest]) -> str:
    return ", ".join(label.code for label in for_everybody(manifests).labels)


def _said(finding: GateFinding) -> str:
    called = finding.measure.removeprefix("loss of ")
    if finding.value is None:
        return f"{called} for {finding.subgroup} is {finding.note}"
    interval = finding.interval
    sure = (
        "no interval"
        if interval is None
        else (
            f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}, wider than need be where both were "
            "tested on the same pictures"
        )
    )
    return f"{called} for {finding.subgroup} goes {finding.note}, a loss of {finding.value:.3f} ({sure})"
