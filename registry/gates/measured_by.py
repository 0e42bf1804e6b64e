"""The gate `measured_by`: every version's figures are signed by one of `keys`, those who measured them.

A key is named by its fingerprint, sha256 of the public key. The bundle holds the public key and the signature
over its job, data, model and figures, so that nothing else is needed to judge: `DERMFED_TRUSTED_KEYS` plays
no part, and a certificate neither. A version without such a signature is the uploader's word, and is refused.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.gate import GateConfig

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
