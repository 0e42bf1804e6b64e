"""Gates that compare with the running release: `non_inferiority` by tests, `outcomes` by patients.

`non_inferiority`: with p1 a subgroup's metric under the running release and p2 the one under the release to
be, each from the test of the version that answers for it, the loss is d = p1 - p2. Its 95 % interval by MOVER
takes the two tests for independent: where they used the same images the true interval is narrower. Bundles do
not hold on how many images two releases differ, which a paired test would need. The verdict goes by d alone;
the interval is shown and kept.

`outcomes` refuses a version that misses a target, whichever subgroup it would answer, and a release whose
sensitivity for a subgroup is known to be below the running one's: the upper end of the one's 95 % interval
(by outcomes where it has answered before, else of its test at the working point) lies below the lower end of
the other's, corrected for who is followed up. Where outcomes say nothing of either release the gate does not
apply; where they cannot be read, or no database of outcomes is named, it refuses.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, get_args

from pydantic import Field

from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import told
from registry.gate_report import OVERRIDE, GateFinding, GateResult, SubgroupFigure, worst_of
from registry.gates.gate import (
    Case,
    GateConfig,
    Need,
    NumericGate,
    answers_for,
    check,
    difference_interval,
    figures_by_subgroup,
    for_everybody,
    lies,
    not_applicable,
    refused,
    tested,
)
from registry.gates.threshold import AT_WORKING_POINT

Compared = Literal["accuracy", "balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold"]
ALL_COMPARED: tuple[Compared, ...] = get_args(Compared)


class NonInferiorityGate(NumericGate):
    """How much any subgroup may lose by the promotion.

    A sensitivity is compared by kind of malignancy as well, as far as both tests tell of it. A kind has few
    images, of which one more missed is chance: refused is a loss whose lower end is above `delta`.

    Where nothing runs, or a subgroup had no metric before, there is nothing to compare and the gate does not
    apply. A subgroup that had one and has none now is refused, and so are other labels: their metrics do not
    compare.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"running"})
    name: Literal["non_inferiority"] = "non_inferiority"
    delta: float = Field(ge=0, le=1)  # the largest loss of any subgroup
    metrics: tuple[Compared, ...] = Field(ALL_COMPARED, min_length=1)

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        named = " and ".join(_in_words(metric) for metric in dict.fromkeys(self.metrics))
        return (
            f"test {named} of every subgroup under the running release minus that under the new one: at most "
            f"{self.delta:.3f}"
        )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each metric and subgroup, or one for the release where nothing compares."""
        measure = "loss"
        if case.unreadable:
            note = (
                f"the running release cannot be read, so that nothing compares: {case.unreadable}. Repair it "
                "as `dermfed-registry verify` says"
            )
            yield refused(measure, note)
        elif not case.running:
            yield not_applicable(measure, "no release runs under this alias yet, so nothing can get worse")
        elif (before := _codes(case.running)) != (now := _codes(case.manifests)):
            note = (
                f"the running release answers {before} and this one would answer {now}, so that their "
                "metrics do not compare. Promote under another alias"
            )
            yield refused(measure, note)
        else:
            for metric in dict.fromkeys(self.metrics):
                yield from self._losses(case, metric)

    def _losses(self, case: Case, metric: Compared) -> Iterator[GateFinding]:
        before, now = (
            {one.name: one for one in tested(manifests)} for manifests in (case.running, case.manifests)
        )
        both = sorted(before.keys() & now.keys())
        of_kinds = ((one, kind) for one in both for kind in now[one].kinds)
        for name, kind in (*((one, "") for one in sorted(before | now)), *of_kinds):
            old, new = (of[name].figure(metric, kind) if name in of else None for of in (before, now))
            measure = f"loss of {_in_words(metric)}{f' for {kind}' if kind else ''}"
            if old is not None and new is not None:
                interval = difference_interval(old, new)
                loss = SubgroupFigure(subgroup=name, value=old.value - new.value, n=new.n, interval=interval)
                low = interval[0] if kind and interval else None
                note = f"{old.value:.3f} -> {new.value:.3f}"
                yield check(name, measure, loss, "at most", self.delta, judged=low, note=note)
            elif kind:
                continue
            elif old is None:
                yield not_applicable(measure, "no metric under the running release", name)
            else:
                note = f"{old.value:.3f} under the running release, and never tested now"
                yield check(name, measure, None, "at most", self.delta, note=note)


def _in_words(metric: Compared) -> str:
    at_threshold = metric == "sensitivity_at_threshold"
    return "sensitivity at the working point" if at_threshold else metric.replace("_", " ")


def _codes(manifests: Sequence[BundleManifest]) -> str:
    return ", ".join(label.code for label in for_everybody(manifests).labels)


class OutcomesGate(GateConfig):
    """Outcomes of patients must not speak against a release."""

    needs: ClassVar[frozenset[Need]] = frozenset({"running", "outcomes"})
    passes = (
        "no version whose guarantee was broken by outcomes of patients, and no sensitivity below what "
        "the running release shows by them"
    )
    name: Literal["outcomes"] = "outcomes"

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        if case.outcomes_unreadable:
            detail = f"outcomes cannot be read: {case.outcomes_unreadable}. Put that right, {OVERRIDE}"
            return GateResult(gate=self.name, verdict="refused", detail=detail)
        findings = (*_guarantees(case), *_compared(case))
        against = "; ".join(one.note for one in findings if one.verdict == "refused")
        passed = "; ".join(one.note for one in findings if one.verdict == "passed")
        if against:
            detail = f"{against}. Look at `dermfed-registry field`, {OVERRIDE}"
        elif passed:
            detail = f"outcomes of patients do not speak against it: {passed}"
        else:
            detail = "no outcome of patients says anything of this release or of the running one"
        return GateResult(gate=self.name, verdict=worst_of(findings), findings=findings, detail=detail)


def _guarantees(case: Case) -> Iterator[GateFinding]:
    for name, seen in sorted(case.outcomes.items()):
        for one in seen:
            if not one.broken:
                note = f"{one.malignant} malignant outcomes of {one.subgroup} under the version for {name}"
                verdict: Literal["passed", "not applicable"] = "passed" if one.malignant else "not applicable"
                yield GateFinding(subgroup=one.subgroup, measure="guarantees", verdict=verdict, note=note)
            for guarantee in one.broken:
                note = f"the version for {name} has broken a guarantee to {one.subgroup}: {guarantee}"
                yield refused("guarantee", note, one.subgroup)


def _compared(case: Case) -> Iterator[GateFinding]:
    running = {(name, one.subgroup): one for name, seen in case.running_outcomes.items() for one in seen}
    own = {(name, one.subgroup): one.sensitivity for name, seen in case.outcomes.items() for one in seen}
    before = answers_for(case.running) if case.running else {}
    now = answers_for(case.manifests)
    for subgroup in sorted(before.keys() & now.keys()):
        known = running.get((before[subgroup].subgroup.name, subgroup))
        if known is None or known.sensitivity is None or now[subgroup] == before[subgroup]:
            continue
        ends, by = own.get((now[subgroup].subgroup.name, subgroup)), "outcomes"
        if ends is None:
            row = figures_by_subgroup(now[subgroup]).get(subgroup, {})
            ends, by = told(row, AT_WORKING_POINT).interval, "its test"
        if ends is None:
            continue
        low = known.sensitivity[0]
        yield GateFinding(
            subgroup=subgroup,
            measure=f"upper end of sensitivity by {by}",
            value=ends[1],
            n=known.malignant,
            interval=ends,
            bound="at least",
            limit=low,
            verdict="passed" if lies(ends[1], "at least", low) else "refused",
            note=f"sensitivity of {subgroup} is at most {ends[1]:.3f} by {by}, and that of the running "
            f"release at least {low:.3f} by outcomes ({known.malignant} malignant ones)",
        )
