"""The gate `approvals`: so many people other than the promoter have approved exactly this release.

A person is a key that the registry knows (`dermfed-registry people`). An approval that nobody has signed
counts for nothing: who is logged in is whoever says so. With `keys` only these count, by their fingerprints.

An approval names the bundles of the whole release that would result, and the alias; another bundle among them
makes it another release. Two approvals by one person are one. An approval holds until the alias moves.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from registry.gate_report import GateFinding, GateResult
from registry.gates.case import Case
from registry.gates.gate import GateConfig


class ApprovalsGate(GateConfig):
    """How many people beside the promoter must stand for a release."""

    name: Literal["approvals"] = "approvals"
    people: int = Field(ge=1)  # other than the promoter
    keys: tuple[Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")], ...] = ()  # none: every approver's

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        among = f" of the keys {', '.join(self.keys)}" if self.keys else ""
        return (
            f"people other than the promoter who have approved exactly this release with their key{among}: "
            f"at least {self.people}"
        )

    def others(self, people: Mapping[str, str], acting: str) -> list[str]:
        """The names of the people, by their keys, whose approval counts where the owner of a key acts."""
        counted = [key for key in people if key != acting and (not self.keys or key in self.keys)]
        return sorted(people[key] for key in counted)

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        others = self.others(case.approvals, case.promoter_key)
        told = f"approved by {', '.join(others)}" if others else "approved by nobody"
        if case.promoter_key in case.approvals:
            told += f" (the approval of {case.promoter}, who promotes, does not count)"
        if self.keys and (
            aside := sorted(case.approvals[key] for key in case.approvals.keys() - {*self.keys})
        ):
            told += f" (that of {', '.join(aside)} does not count here: another key)"
        if case.approved_unsigned:
            unsigned = ", ".join(case.approved_unsigned)
            told += f" (that of {unsigned} does not count: it is signed with no approver's key)"
        enough = len(others) >= self.people
        detail = (
            f"exactly this release was {told}; at least {self.people} other than the promoter must approve it"
        )
        if not enough:
            detail += f". Ask them for `{case.approve_with} --key FILE`"
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
