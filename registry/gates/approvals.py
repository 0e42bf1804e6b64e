"""The gate `approvals`: so many people other than the promoter have approved exactly this release.

An approval names the bundles of the whole release that would result, and the alias; another bundle among them
makes it another release. Two approvals by one person are one. An approval holds until the alias moves.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult
from registry.gates.case import Case
from registry.gates.gate import GateConfig


class ApprovalsGate(GateConfig):
    """How many people beside the promoter must stand for a release."""

    name: Literal["approvals"] = "approvals"
    people: int = Field(ge=1)  # other than the promoter

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            f"people other than the promoter who have approved exactly this release: at least {self.people}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        others = sorted({person for person in case.approved_by if person != case.promoter})
        told = f"approved by {', '.join(others)}" if others else "approved by nobody"
        if case.promoter in case.approved_by:
            told += f" (the approval of {case.promoter}, who promotes, does not count)"
        enough = len(others) >= self.people
        detail = (
            f"exactly this release was {told}; at least {self.people} other than the promoter must approve it"
        )
        if not enough:
            detail += f". Ask them for `{case.approve_with}`, {OVERRIDE}"
        finding = GateFinding(
            subgroup="",
            measure="approvals",
            value=len(others),
            bound="at least",
            limit=self.people,
            verdict="passed" if enough else "refused",
            note=told,
        )
        return GateResult(
            gate=self.name,
            verdict=finding.verdict,
            value=len(others),
            limit=self.people,
            findings=(finding,),
            detail=detail,
        )
