"""The gates on who takes responsibility: `approvals`, `signature` of versions, `metrics_signature`."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.gate import Case, GateConfig, Need, check

Fingerprint = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class ApprovalsGate(GateConfig):
    """How many people other than the promoter must have approved exactly this release.

    A person is a key that the registry knows (`dermfed-registry people`); an approval without a valid
    signature does not count. With `keys` only these count, by their fingerprints.

    An approval names the bundles of the whole release that would result, and the alias; another bundle among
    them makes it another release. Two approvals by one person are one. An approval is valid until the alias
    moves.
    """

    name: Literal["approvals"] = "approvals"
    people: int = Field(ge=1)  # other than the promoter
    keys: tuple[Fingerprint, ...] = ()  # none: every approver's

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
        """Judge a release."""
        others = self.others(case.approvals, case.promoter_key)
        note = f"approved by {', '.join(others) or 'no other person'}"
        if case.promoter_key in case.approvals:
            note += f" (the approval of {case.promoter}, who promotes, does not count)"
        other_keys = sorted(case.approvals[key] for key in case.approvals.keys() - {*self.keys})
        if self.keys and other_keys:
            note += f" (that of {', '.join(other_keys)} does not count here: another key)"
        detail = (
            f"exactly this release was {note}; at least {self.people} other than the promoter must approve"
        )
        finding = check("", "approvals", len(others), "at least", self.people, note=note)
        if finding.verdict == "refused":
            detail += f". Ask them for `{case.approve_with} --key FILE`"
        return GateResult(
            gate=self.name,
            verdict=finding.verdict,
            value=len(others),
            limit=self.people,
            findings=(finding,),
            detail=detail,
        )


class SignedByGate(GateConfig):
    """A gate that asks of every version for a signature by one of some signers.

    Attributes:
        measure: what is required.
        remedy: what to do where it is missing.
    """

    measure: ClassVar[str]
    remedy: ClassVar[str]

    @property
    @abstractmethod
    def allowed(self) -> tuple[str, ...]:
        """The signers, one of whom is enough for a version."""

    @abstractmethod
    def signers(self, case: Case, name: str) -> tuple[tuple[str, ...], str]:
        """Who has signed the version for this subgroup; and what to say where no one has."""

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"{self.measure} for every version, by {' or '.join(self.allowed)}"

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        findings = tuple(self._finding(case, one.subgroup.name) for one in case.manifests)
        refused = [one for one in findings if one.verdict == "refused"]
        named = ", ".join(f"{one.subgroup} ({one.note})" for one in refused or findings)
        if refused:
            detail = (
                f"no {self.measure} by an allowed signer for {named}; allowed: {', '.join(self.allowed)}. "
                f"{self.remedy}, {OVERRIDE}"
            )
        else:
            detail = f"{self.measure} for every version: {named}"
        return GateResult(gate=self.name, verdict=worst_of(findings), findings=findings, detail=detail)

    def _finding(self, case: Case, name: str) -> GateFinding:
        found, unsigned = self.signers(case, name)
        allowed = [one for one in dict.fromkeys(found) if one in self.allowed]
        shown = allowed or list(dict.fromkeys(found))
        return GateFinding(
            subgroup=name,
            measure=self.measure,
            verdict="passed" if allowed else "refused",
            note=f"signed by {', '.join(shown)}" if shown else unsigned,
        )


class SignatureGate(SignedByGate):
    """Whose signature every version needs.

    An identity is what the registry keeps with a signature: the fingerprint of a public key, or a
    certificate's subject. It counts by the key of a person whom the registry knows, or by one in
    `DERMFED_TRUSTED_KEYS` of the promoter: a certificate with any name is easily made.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"signatures"})
    measure = "signature of the version"
    remedy = (
        "Have it signed with `dermfed-registry sign`, and add the key with `dermfed-registry people add` "
        "or name it in DERMFED_TRUSTED_KEYS"
    )
    name: Literal["signature"] = "signature"
    identities: tuple[str, ...] = Field(min_length=1)  # one of them is enough for a version

    @property
    def allowed(self) -> tuple[str, ...]:
        """The identities."""
        return self.identities

    def signers(self, case: Case, name: str) -> tuple[tuple[str, ...], str]:
        """The signers whose signature is proven."""
        return case.signed_by.get(name, ()), "not signed with a key that is trusted here"


class MetricsSignatureGate(SignedByGate):
    """Whose signature the metrics of every version need: of those who measured them.

    The bundle holds the public key and the signature over its job, data, model and metrics, so that nothing
    else is needed to judge: `DERMFED_TRUSTED_KEYS` plays no part, and a certificate neither.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"metrics_signatures"})
    measure = "signature of the metrics"
    remedy = "Have the coordinator that measured it sign, with `dermfed-train --key`"
    name: Literal["metrics_signature"] = "metrics_signature"
    keys: tuple[Fingerprint, ...] = Field(min_length=1)  # fingerprints; one of them is enough for a version

    @property
    def allowed(self) -> tuple[str, ...]:
        """The keys."""
        return self.keys

    def signers(self, case: Case, name: str) -> tuple[tuple[str, ...], str]:
        """The key whose signature holds; without one, the metrics are the uploader's word."""
        key = case.metrics_signed_by.get(name)
        return (() if key is None else (key,)), "unsigned, the uploader's word"
