"""Reading and writing the table of signatures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from registry.database.queries import version_id
from registry.database.tables import SignatureRow, VersionRow
from registry.records import Version


@dataclass(frozen=True)
class Signature:
    """One stored signature of a version; whose it claims to be is unverified.

    Attributes:
        model, number: the version.
        object: the digest of the signature's bytes, which are in the store.
        identity: who signed: sha256 of the public key, or the subject of the certificate.
        created: when.
    """

    model: str
    number: int
    object: str
    identity: str
    created: datetime


def signatures_of(connection: Connection, model: str | None = None) -> tuple[Signature, ...]:
    """Every signature, of a model's versions or of all, by version and then the oldest first."""
    query = select(
        VersionRow.model,
        VersionRow.number,
        SignatureRow.object,
        SignatureRow.identity,
        SignatureRow.created,
    ).join(VersionRow, VersionRow.id == SignatureRow.version_id)
    if model is not None:
        query = query.where(VersionRow.model == model)
    found = [Signature(*row) for row in connection.execute(query)]
    return tuple(sorted(found, key=lambda one: (one.model, one.number, one.created, one.object)))


def signatures_of_version(connection: Connection, version: Version) -> tuple[Signature, ...]:
    """Every signature of a version, the oldest first."""
    return tuple(one for one in signatures_of(connection, version.model) if one.number == version.number)


def insert_signatures(connection: Connection, signatures: Sequence[Signature]) -> None:
    """Inserts signatures of existing versions."""
    for one in signatures:
        version = version_id(connection, one.model, one.number)
        connection.execute(
            insert(SignatureRow).values(
                version_id=version, object=one.object, identity=one.identity, created=one.created
            )
        )
