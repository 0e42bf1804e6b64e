"""Writing the tables: each function is one step of somebody's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Insert, delete, func, insert, select, update

from registry.bundle.folder import Bundle
from registry.gates import GateReport
from registry.queries import version_by_digest
from registry.records import ApiKey, Event, EventKind, Version
from registry.tables import AliasRow, EventRow, KeyRow, MemberRow, ReleaseRow, VersionRow


@dataclass(frozen=True)
class Note:
    """What an event says beside what was done: who, why, and what the gates said."""

    actor: str
    reason: str | None = None
    gates: GateReport | None = None
    overridden: bool = False


def insert_version(connection: Connection, bundle: Bundle) -> tuple[Version, bool]:
    """The bundle's version, and whether it is a new one."""
    manifest = bundle.manifest
    if (known := version_by_digest(connection, manifest.model, bundle.digest)) is not None:
        return known, False
    last = connection.scalar(select(func.max(VersionRow.number)).where(VersionRow.model == manifest.model))
    version = Version(manifest.model, (last or 0) + 1, bundle.digest, manifest.subgroup, datetime.now(UTC))
    connection.execute(
        insert(VersionRow).values(
            model=version.model,
            number=version.number,
            digest=version.digest,
            model_digest=manifest.file.sha256,
            subgroup=version.subgroup.name,
            scale=version.subgroup.scale,
            tones=list(version.subgroup.values),
            created=version.created,
        )
    )
    return version, True


def insert_release(connection: Connection, model: str, versions: Sequence[Version]) -> int:
    """A new release of these versions; returns its id."""
    release = _insert(connection, insert(ReleaseRow).values(model=model, created=datetime.now(UTC)))
    numbers = [version.number for version in versions]
    ids = {
        row.number: row.id
        for row in connection.execute(
            select(VersionRow.number, VersionRow.id).where(
                VersionRow.model == model, VersionRow.number.in_(numbers)
            )
        )
    }
    connection.execute(
        insert(MemberRow),
        [
            {"release_id": release, "subgroup": one.subgroup.name, "version_id": ids[one.number]}
            for one in versions
        ],
    )
    return release


def point_alias(connection: Connection, model: str, alias: str, release: int) -> None:
    """Makes the alias point to the release."""
    here = (AliasRow.model == model, AliasRow.alias == alias)
    connection.execute(delete(AliasRow).where(*here))
    connection.execute(insert(AliasRow).values(model=model, alias=alias, release_id=release))


def insert_event(
    connection: Connection,
    kind: EventKind,
    model: str,
    note: Note,
    *,
    versions: Sequence[int] = (),
    alias: str | None = None,
    release: int | None = None,
    before: int | None = None,
) -> Event:
    """Writes down what was done."""
    now = datetime.now(UTC)
    number = _insert(
        connection,
        insert(EventRow).values(
            time=now,
            actor=note.actor,
            kind=kind,
            model=model,
            alias=alias,
            versions=list(versions),
            release_id=release,
            before_id=before,
            reason=note.reason,
            gates=None if note.gates is None else note.gates.model_dump(mode="json"),
            overridden=note.overridden,
        ),
    )
    return Event(
        id=number,
        time=now,
        actor=note.actor,
        kind=kind,
        model=model,
        alias=alias,
        versions=tuple(versions),
        release=release,
        before=before,
        reason=note.reason,
        gates=note.gates,
        overridden=note.overridden,
    )


def insert_key(connection: Connection, key: ApiKey) -> None:
    """Keeps a key."""
    connection.execute(
        insert(KeyRow).values(
            id=key.id, name=key.name, sha256=key.sha256, created=key.created, revoked=key.revoked
        )
    )


def mark_revoked(connection: Connection, key: str) -> None:
    """Revokes a key; one that was revoked keeps its time."""
    here = KeyRow.id == key, KeyRow.revoked.is_(None)
    connection.execute(update(KeyRow).where(*here).values(revoked=datetime.now(UTC)))


def _insert(connection: Connection, statement: Insert) -> int:
    inserted = connection.execute(statement).inserted_primary_key
    assert inserted is not None
    return int(inserted[0])
