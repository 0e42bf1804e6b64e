"""The gate `outcomes`: outcomes of patients speak neither against the new release nor for the running one.

It refuses a version with a broken guarantee, whichever subgroup it would answer, and a release whose
sensitivity for a subgroup is known to be below the running one's: the upper end of the one's 95 % interval
(by outcomes where it has answered before, else of its test at the working point) lies below the lower end
of the other's, corrected for who is followed up.

Where outcomes say nothing of either release the gate does not apply; where they cannot be read, or no
database of outcomes is named, it refuses.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.gate import Case, GateConfig, Need, answers_for, figures_by_subgroup, interval_of, lies
from registry.gates.threshold import AT_WORKING_POINT


class OutcomesGate(GateConfig):
    """Outcomes of patients must not speak against a release."""

    needs: ClassVar[frozenset[Need]] = frozenset({"running", "outcomes"})
    name: Literal["outcomes"] = "outcomes"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "no version whose guarantee was broken by outcomes of patients, and no sensitivity below what "
            "the running release shows by them"
        )

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        if case.outcomes_unreadable:
            detail = f"outcomes cannot be read: {case.outcomes_unreadable}. Put that right, {OVERRIDE}"
            return GateResult(gate=self.name, verdict="refused", detail=detail)
        findings = (*_guarantees(case), *_compared(case))
        refused = "; ".join(one.note for one in findings if one.verdict == "refused")
        passed = "; ".join(one.note for one in findings if one.verdict == "passed")
        if refused:
            detail = f"{refused}. Look at `dermfed-registry field`, {OVERRIDE}"
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
                yield GateFinding(subgroup=one.subgroup, measure="guarantee", verdict="refused", note=note)


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
            row = figures_by_subgroup(now[subgroup]).get(subgroup)
            ends, by = interval_of(row, AT_WORKING_POINT) if row is not None else None, "its test"
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
