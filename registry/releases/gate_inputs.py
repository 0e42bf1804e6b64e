"""What gates look at beside the bundles: the approvals of a release, and the signers of its versions."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from registry.database.connection import reading
from registry.database.queries import events_of
from registry.records import MOVES, Event, Version
from registry.releases.compose import Candidate
from registry.signing.envelope import TRUSTED_KEYS
from registry.signing.rows import signatures_of_version
from registry.signing.versions import check_version
from registry.store.base import Store

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Trust


def approvers(connection: Connection, candidate: Candidate, alias: str) -> tuple[str, ...]:
    """The people who approved exactly this release for the alias since the alias last moved, each once."""
    return approved_by(events_of(connection, candidate.model, alias), candidate.digest(alias))


def approved_by(events: Sequence[Event], digest: str) -> tuple[str, ...]:
    """The people who, by one alias's events, approved this release since the alias last moved.

    An approval weighs a release against the one that runs; where that has changed, and be it by a rollback
    of the very release that was approved, it has to be weighed anew.
    """
    people: list[str] = []
    for event in events:
        if event.kind in MOVES:
            people.clear()
        elif event.kind == "approved" and (event.details or {}).get("candidate") == digest:
            people.append(event.actor)
    return tuple(dict.fromkeys(people))


def signers(engine: Engine, store: Store, versions: Sequence[Version]) -> dict[str, tuple[str, ...]]:
    """The signers of each version of a release, by the name of its subgroup.

    Where `DERMFED_TRUSTED_KEYS` names keys, every signature is checked, and only a valid one of those keys
    counts. Elsewhere the identities that the registry recorded are taken.

    Raises:
        KeyUnusable: a file holds no key.
        StoreError: a version's manifest is missing or altered.
    """
    trust = _trust()
    found: dict[str, tuple[str, ...]] = {}
    for version in versions:
        if trust is None:
            with reading(engine) as connection:
                names = [one.identity for one in signatures_of_version(connection, version)]
        else:
            checked = check_version(engine, store, version, trust)
            names = [name for _, one in checked if one.verdict == "valid" for name in one.names]
        found[version.subgroup.name] = tuple(dict.fromkeys(names))
    return found


def _trust() -> "Trust | None":
    files = [Path(file) for file in os.environ.get(TRUSTED_KEYS, "").split(os.pathsep) if file]
    if not files:
        return None
    from registry.signing.pem import read_trust  # cryptography is an extra, and only this needs it

    return read_trust(files)
