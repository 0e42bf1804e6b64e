"""A gate that does not apply has judged nothing; where that keeps a release out all the same.

- Where the set says that the gate must apply (`must_apply`).
- Where the running release was judged by it: whoever leaves figures, labels or promises out would else be rid
  of a gate that the release before was held to.
"""

from registry.gate_report import OVERRIDE, GateFinding, GateResult
from registry.gates.case import Case
from registry.gates.gate import GateConfig


def held_to(gate: GateConfig, result: GateResult, case: Case, *, must_apply: bool) -> GateResult:
    """The result of a gate, refused where it judged nothing of what has to be judged.

    Args:
        gate: the gate.
        result: what it says of the case.
        case: the release.
        must_apply: whether the set asks for it.
    """
    skipped = tuple(one for one in result.findings if one.verdict == "not applicable")
    whole = result.verdict == "not applicable"
    if result.verdict == "refused" or not (whole or skipped):
        return result
    if must_apply:
        of = ", ".join(one.subgroup for one in skipped) or "the release"
        return _refused(
            result, skipped, f"the gate set says that it must apply, and it judges nothing of {of}"
        )
    if gate.looks_at_running or not case.running:
        return result
    lost = _judged(gate, case)
    if skipped:
        lost &= {one.subgroup for one in skipped}
    if not lost:
        return result
    named = ", ".join(sorted(lost))
    why = f"of the running release this gate judges {named}, and of this one it does not"
    return _refused(result, tuple(one for one in skipped if one.subgroup in lost), why)


def _judged(gate: GateConfig, case: Case) -> set[str]:
    """The subgroups of the running release that the gate has a figure of."""
    before = gate.judge(Case(case.running))
    return {one.subgroup for one in before.findings if one.value is not None}


def _refused(result: GateResult, skipped: tuple[GateFinding, ...], why: str) -> GateResult:
    findings = tuple(
        one.model_copy(update={"verdict": "refused"}) if one in skipped else one for one in result.findings
    )
    detail = f"{why}: {result.detail}. Put into the bundle what is missing there, {OVERRIDE}"
    return result.model_copy(update={"verdict": "refused", "findings": findings, "detail": detail})
