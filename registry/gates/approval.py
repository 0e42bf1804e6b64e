"""The gate `approvals`: so many people other than the promoter have approved exactly this release.

A person is a key that the registry knows (`dermfed-registry people`). An approval that nobody has signed
counts for nothing: who is logged in is whoever says so. With `keys` only these count, by their fingerprints.

An approval names the bundles of the whole release that would result, and the alias; another bundle among them
makes it another release. Two approvals by one person are one. An approval holds until the alias moves.

The gate `signature`: every version of the release is signed by one of `identities`.

An identity is what the registry keeps with a signature: the fingerprint of a public key, or a certificate's
subject. A version without such a signature is refused, and so is one whose signature nobody proves: a person
whom the registry knows, or a key or certificate in `DERMFED_TRUSTED_KEYS` of the promoter. Anybody can make a
certificate with a fine name.

The gate `measured_by`: every version's figures are signed by one of `keys`, those who measured them.

A key is named by its fingerprint, sha256 of the public key. The bundle holds the public key and the signature
over its job, data, model and figures, so that nothing else is needed to judge: `DERMFED_TRUSTED_KEYS` plays
no part, and a certificate neither. A version without such a signature is the uploader's word, and is refused.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.gate import Case, GateConfig


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


class SignatureGate(GateConfig):
    """Whose signature every version needs."""

    looks_at_signatures: ClassVar[bool] = True
    name: Literal["signature"] = "signature"
    identities: tuple[str, ...] = Field(min_length=1)  # one of them is enough for a version

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"every version is signed by {' or '.join(self.identities)}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        findings = tuple(
            self._finding(
                one.subgroup.name,
                case.signed_by.get(one.subgroup.name, ()),
                case.claimed_by.get(one.subgroup.name, ()),
            )
            for one in case.manifests
        )
        unsigned = [one for one in findings if one.verdict == "refused"]
        if unsigned:
            named = ", ".join(f"{one.subgroup} ({one.note})" for one in unsigned)
            detail = (
                f"no allowed identity has signed the version for {named}; allowed: "
                f"{', '.join(self.identities)}. Have it signed with `dermfed-registry sign`, {OVERRIDE}"
            )
        else:
            detail = (
                f"every version is signed: {', '.join(f'{one.subgroup} ({one.note})' for one in findings)}"
            )
        return GateResult(gate=self.name, verdict=worst_of(findings), findings=findings, detail=detail)

    def _finding(self, name: str, signed_by: tuple[str, ...], claimed_by: tuple[str, ...]) -> GateFinding:
        allowed = [one for one in dict.fromkeys(signed_by) if one in self.identities]
        shown = allowed or list(dict.fromkeys(signed_by))
        note = f"signed by {', '.join(shown)}" if shown else "not signed"
        if not shown and claimed_by:
            note = (
                f"said to be signed by {', '.join(claimed_by)}, which nobody proves: add the key with "
                f"`dermfed-registry people add`, or name it in DERMFED_TRUSTED_KEYS"
            )
        return GateFinding(
            subgroup=name,
            measure="signature",
            verdict="passed" if allowed else "refused",
            note=note,
        )


Fingerprint = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class MeasuredByGate(GateConfig):
    """Whose signature the figures of every version need."""

    looks_at_measurers: ClassVar[bool] = True
    name: Literal["measured_by"] = "measured_by"
    keys: tuple[Fingerprint, ...] = Field(min_length=1)  # fingerprints; one of them is enough for a version

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"the figures of every version are signed by {' or '.join(self.keys)}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        findings = tuple(
            self._finding(name, case.measured_by.get(name))
            for name in (one.subgroup.name for one in case.manifests)
        )
        refused = [one for one in findings if one.verdict == "refused"]
        said = ", ".join(f"{one.subgroup} ({one.note})" for one in refused or findings)
        if refused:
            detail = (
                f"no allowed key has signed the figures of the version for {said}; allowed: "
                f"{', '.join(self.keys)}. Have the coordinator that measured it sign, with "
                f"`dermfed-train --key`, {OVERRIDE}"
            )
        else:
            detail = f"the figures of every version are measured and signed: {said}"
        return GateResult(gate=self.name, verdict=worst_of(findings), findings=findings, detail=detail)

    def _finding(self, name: str, key: str | None) -> GateFinding:
        return GateFinding(
            subgroup=name,
            measure="figures",
            verdict="passed" if key in self.keys else "refused",
            note="the uploader's word" if key is None else f"signed by {key}",
        )
