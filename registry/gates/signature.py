"""The gate `signature`: every version of the release is signed by one of `identities`.

An identity is what the registry keeps with a signature: the fingerprint of a public key, or a certificate's
subject. A version without such a signature is refused, and so is one whose signature nobody proves: a person
whom the registry knows, or a key or certificate in `DERMFED_TRUSTED_KEYS` of the promoter. Anybody can make a
certificate with a fine name.
"""

from typing import ClassVar, Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.gate import GateConfig


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
