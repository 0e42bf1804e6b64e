"""What gates look at beside the bundles: the approvals of a release, and the signers of its versions."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine

from registry.bundle.manifest.schema import BundleManifest
from registry.database.changes import AuditContext
from registry.database.connection import reading
from registry.database.people import active_people
from registry.database.queries import last_move
from registry.gates.approvals import ApprovalsGate
from registry.people.approvals import Approvals, Asked, approvals_of, require_approved
from registry.records import MOVES, Person, Version
from registry.releases.compose import Candidate
from registry.releases.gate_sets import StoredGateSet
from registry.signing.attestation import check_attestation
from registry.signing.envelope import TRUSTED_KEYS
from registry.signing.rows import signatures_of_version
from registry.signing.versions import check_version
from registry.store.base import Store

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Trust

OVER_GATES: Final = "overriding the gates for"
"""What an action is called that needs approvals of its own."""


def approvals(
    connection: Connection,
    candidate: Candidate,
    alias: str,
    *,
    before: int | None = None,
    over_gates: bool = False,
) -> Approvals:
    """Who approved exactly this release for the alias since that last moved or a canary beside it ended.

    As it was before an event, where one is named; with `over_gates`, who approved it although gates refuse.

    An approval weighs a release against the one that runs; where that has changed, and be it by a rollback
    of the very release that was approved, it has to be weighed anew. So one that was signed before is none,
    wherever somebody may have put it since.
    """
    moved = last_move(connection, candidate.model, alias, (*MOVES, "canary-ended"), before=before)
    action = candidate.digest(alias, over_gates=over_gates)
    return approvals_of(connection, action, candidate.model, alias, since=moved, before=before)


def approve_with(candidate: Candidate, alias: str) -> str:
    """The command that approves the candidate."""
    numbers = [str(one.number) for one in candidate.named]
    without = [f"--without {quote(name)}" for name in candidate.without]
    return " ".join(["dermfed-registry approve", candidate.model, *numbers, *without, "--to", alias])


def override_approved(
    connection: Connection, candidate: Candidate, alias: str, gates: StoredGateSet, context: AuditContext
) -> dict[str, list[str]]:
    """What the event of a promotion says of who approved it although gates refuse.

    Raises:
        ApprovalsMissing: they are fewer than the gate set asks for.
    """
    asked = [Asked(str(gates), gate) for gate in gates.gates.gates if isinstance(gate, ApprovalsGate)]
    found = approvals(connection, candidate, alias, over_gates=True)
    command = f"{approve_with(candidate, alias)} --override-gates"
    return require_approved(asked, found, context, f"{OVER_GATES} {candidate.title}", command)


@dataclass(frozen=True)
class Signers:
    """The signers of one version.

    Attributes:
        proven: identities whose signature holds, by a key that is trusted or of a person of the registry.
        claimed: identities that the registry wrote down, and nobody vouches for.
    """

    proven: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


def measurers(manifests: Sequence[BundleManifest]) -> dict[str, str]:
    """The fingerprint of the key that has signed the figures of each version, by the name of its subgroup.

    Only where the signature holds; whose key it is, the gate says.

    Raises:
        KeyUnusable: there is a signature, and the extra `sign` is missing.
    """
    return {
        one.subgroup.name: one.attestation.fingerprint
        for one in manifests
        if one.attestation is not None and check_attestation(one) == "signed"
    }


def signers(engine: Engine, store: Store, versions: Sequence[Version]) -> dict[str, Signers]:
    """The signers of each version of a release, by the name of its subgroup.

    Every signature is checked, by the keys that `DERMFED_TRUSTED_KEYS` names and those of the people whom the
    registry knows. What none of these proves is a claim: anybody can make a certificate with a fine name.

    Raises:
        KeyUnusable: a file holds no key.
        StoreError: a version's manifest is missing or altered.
    """
    found: dict[str, Signers] = {}
    with reading(engine) as connection:
        people = active_people(connection)
        stored = {one.number: signatures_of_version(connection, one) for one in versions}
    for version in versions:
        claimed = [one.identity for one in stored[version.number]]
        checked = check_version(engine, store, version, _trust(people)) if claimed else ()
        # Of a trusted key the key alone, not what a certificate around it says.
        proven = [one.identity for _, one in checked if one.verdict == "valid" and one.identity]
        found[version.subgroup.name] = Signers(
            tuple(dict.fromkeys(proven)),
            tuple(one for one in dict.fromkeys(claimed) if one not in proven),
        )
    return found


def _trust(people: Mapping[str, Person]) -> "Trust":
    from registry.signing.pem import read_public_key, read_trust, trust_in_keys  # it needs an extra

    files = [Path(file) for file in os.environ.get(TRUSTED_KEYS, "").split(os.pathsep) if file]
    keys = [
        read_public_key(one.public_key.encode(), f"the registry, of {one.name},") for one in people.values()
    ]
    return trust_in_keys(keys, read_trust(files) if files else None)
