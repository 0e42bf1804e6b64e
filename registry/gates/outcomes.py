"""The gate `field`: outcomes of patients speak neither against the release to be nor for the one that runs.

It refuses a version that has broken a promise in the field, whoever it would answer, and a release whose
sensitivity for a subgroup is known to be below what the running one shows in the field: the upper end of the
95 % interval of the one (in the field where it has answered before, else of its test at the working point)
lies below the lower end of the other, corrected for who is followed up. A reason given with
`--override-gates --reason`, which history keeps, lets it through.

Where outcomes say nothing of either release, the gate does not apply; where they cannot be read, or nobody
says where they are, it refuses.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.gate import Case, GateConfig, InField, answers_for, figures_by_subgroup, interval_of
from registry.gates.threshold import AT_WORKING_POINT


class FieldGate(GateConfig):
    """What became of patients must not speak against a release."""

    looks_at_running: ClassVar[bool] = True
    looks_at_outcomes: ClassVar[bool] = True
    name: Literal["field"] = "field"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "no version whose promise was broken in the field, and no sensitivity below what the running "
            "release shows there"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        if case.outcomes_unread:
            detail = f"outcomes cannot be read: {case.outcomes_unread}. Put that right, {OVERRIDE}"
            return GateResult(gate=self.name, verdict="refused", detail=detail)
        findings = (*_broken(case), *_compared(case))
        if all(one.verdict == "not applicable" for one in findings):
            detail = "no outcome of patients says anything of this release or of the one that runs"
            return GateResult(gate=self.name, verdict="not applicable", findings=findings, detail=detail)
        refused = [one for one in findings if one.verdict == "refused"]
        if refused:
            detail = f"{'; '.join(one.note for one in refused)}. Look at `dermfed-registry field`, {OVERRIDE}"
        else:
            detail = "what became of patients does not speak against it: "
            detail += "; ".join(one.note for one in findings if one.verdict == "passed")
        return GateResult(gate=self.name, verdict=worst_of(findings), findings=findings, detail=detail)


def _broken(case: Case) -> Iterator[GateFinding]:
    for name, seen in sorted(case.in_field.items()):
        for one in seen:
            if not one.broken:
                yield GateFinding(
                    subgroup=one.subgroup,
                    measure="promises in the field",
                    verdict="passed" if one.malignant else "not applicable",
                    note=f"{one.malignant} malignant outcomes of {one.subgroup} under the version for {name}",
                )
            for promise in one.broken:
                yield GateFinding(
                    subgroup=one.subgroup,
                    measure="promise in the field",
                    verdict="refused",
                    note=f"the version for {name} has broken a promise to {one.subgroup}: {promise}",
                )


def _compared(case: Case) -> Iterator[GateFinding]:
    running = {(name, one.subgroup): one for name, seen in case.running_in_field.items() for one in seen}
    before = answers_for(case.running) if case.running else {}
    now = answers_for(case.manifests)
    for subgroup in sorted(before.keys() & now.keys()):
        known = running.get((before[subgroup].subgroup.name, subgroup))
        if known is None or known.sensitivity is None or now[subgroup] == before[subgroup]:
            continue
        ends, where = _candidate(case, subgroup, now[subgroup].subgroup.name), "in the field"
        if ends is None:
            own = figures_by_subgroup(now[subgroup]).get(subgroup)
            ends, where = interval_of(own, AT_WORKING_POINT) if isinstance(own, Mapping) else None, "on test"
        if ends is None:
            continue
        worse = ends[1] < known.sensitivity[0]
        yield GateFinding(
            subgroup=subgroup,
            measure=f"upper end of the sensitivity {where}",
            value=ends[1],
            n=known.malignant,
            interval=ends,
            bound="at least",
            limit=known.sensitivity[0],
            verdict="refused" if worse else "passed",
            note=f"sensitivity of {subgroup} is {ends[1]:.3f} at most {where}, and the running release shows "
            f"{known.sensitivity[0]:.3f} at least in the field ({known.malignant} malignant outcomes)",
        )


def _candidate(case: Case, subgroup: str, version_for: str) -> tuple[float, float] | None:
    seen: tuple[InField, ...] = case.in_field.get(version_for, ())
    return next((one.sensitivity for one in seen if one.subgroup == subgroup), None)
