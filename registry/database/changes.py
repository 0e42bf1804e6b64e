"""Inserts and updates of the tables, each a step of the caller's transaction, with the event it records."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from registry.bundle.manifest import BundleManifest
from registry.bundle.text import alike, shown
from registry.database.queries import (
    Signatory,
    acting_person,
    chain_end,
    ended_with,
    events_where,
    version_by_digest,
    version_id,
)
from registry.database.tables import (
    AliasRow,
    EventRow,
    HeadRow,
    KeyRow,
    MemberRow,
    ReleaseRow,
    VersionRow,
    WithdrawalRow,
    event_hash,
    member_facts,
    newest_about,
    registry_id,
    release_time,
    report_digest,
    statement,
    stored_time,
    version_facts,
)
from registry.environment import current_host
from registry.errors import BundleRefused, ReleaseRefused
from registry.gate_report import GateReport
from registry.names import check_title
from registry.records import ApiKey, Canary, Event, EventKind, Version


@dataclass(frozen=True)
class AuditContext:
    """The context of an audited action: who did it, why, and what the gates said.

    Attributes:
        actor: who, by the operating system's word, or the name of the person who signs.
        reason: why, if it was said.
        gates: what the gates said.
        overridden: whether one refused and was overridden.
        signatory: who signs it; None where nobody does.
    """

    actor: str
    reason: str | None = None
    gates: GateReport | None = None
    overridden: bool = False
    signatory: Signatory | None = None

    @property
    def key(self) -> str:
        """The fingerprint of the key that signs it; empty where nothing does."""
        return "" if self.signatory is None else self.signatory.fingerprint

    def require_reason(self, action: str) -> str:
        """The reason.

        Raises:
            ReleaseRefused: there is none.
        """
        if self.reason is None:
            raise ReleaseRefused(f"{action} needs a reason, which history keeps; add --reason TEXT")
        return self.reason


def insert_version(connection: Connection, manifest: BundleManifest, digest: str) -> tuple[Version, bool]:
    """Inserts the version of a bundle unless it is there; returns it, and whether it is new.

    Raises:
        BundleRefused: its subgroup has a name that looks like that of another subgroup of the model.
    """
    if (known := version_by_digest(connection, manifest.model, digest)) is not None:
        return known, False
    _names_apart(connection, manifest, digest)
    last = connection.scalar(select(func.max(VersionRow.number)).where(VersionRow.model == manifest.model))
    version = Version(manifest.model, (last or 0) + 1, digest, manifest.subgroup, datetime.now(UTC))
    connection.execute(
        insert(VersionRow).values(
            model=version.model,
            number=version.number,
            digest=version.digest,
            model_digest=manifest.file.sha256,
            subgroup=version.subgroup.name,
            scale=version.subgroup.scale,
            tones=(
                {scale: list(values) for scale, values in version.subgroup.tones.items()}
                or list(version.subgroup.values)
            ),
            created=version.created,
        )
    )
    return version, True


def _names_apart(connection: Connection, manifest: BundleManifest, digest: str) -> None:
    name, model = manifest.subgroup.name, manifest.model
    for known in connection.scalars(
        select(VersionRow.subgroup).where(VersionRow.model == model).distinct().order_by(VersionRow.subgroup)
    ):
        if alike(name, known):
            raise BundleRefused(
                f"the bundle {digest} of {model} is for a subgroup {name!a}, which looks like "
                f"{known[:100]!a}, another subgroup of the model; give it the same name, or one that nobody "
                "takes for it"
            )


def insert_release(connection: Connection, model: str, versions: Sequence[Version]) -> int:
    """Inserts a release of these versions; returns its id."""
    row = insert(ReleaseRow).values(model=model, created=datetime.now(UTC)).returning(ReleaseRow.id)
    release = connection.execute(row).scalar_one()
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


def point_alias(connection: Connection, model: str, alias: str, release: int | None) -> None:
    """Points the alias to a release, or to nothing."""
    connection.execute(delete(AliasRow).where(AliasRow.model == model, AliasRow.alias == alias))
    if release is not None:
        connection.execute(insert(AliasRow).values(model=model, alias=alias, release_id=release))


def move_alias(
    connection: Connection,
    kind: EventKind,
    model: str,
    alias: str,
    context: AuditContext,
    *,
    to: int | None,
    before: int | None,
    canary: Canary | None,
    versions: Sequence[int] = (),
    details: Mapping[str, Any] | None = None,
) -> Event:
    """Points the alias to a release, or to nothing, and writes the event; a canary next to it ends."""
    point_alias(connection, model, alias, to)
    told = {**(details or {}), **ended_with(canary)}
    return insert_event(
        connection,
        kind,
        model,
        context,
        versions=versions,
        alias=alias,
        release=to,
        before=before,
        details=told,
    )


def insert_withdrawal(connection: Connection, version: Version, reason: str, time: datetime) -> None:
    """Marks a version as withdrawn."""
    id_ = version_id(connection, version.model, version.number)
    connection.execute(insert(WithdrawalRow).values(version_id=id_, reason=reason, created=time))


def insert_event(
    connection: Connection,
    kind: EventKind,
    model: str,
    context: AuditContext,
    *,
    versions: Sequence[int] = (),
    alias: str | None = None,
    release: int | None = None,
    before: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> Event:
    """Appends an event to the hash chain, signed if the context has a signer.

    `details` are facts of the kind's own. Those of added versions and of the release's members are added to
    them here.

    Raises:
        InvalidName: the actor has a name that cannot be read in history.
        PersonRefused: it takes a person of a role, and none has signed it.
    """
    check_title("actor", context.actor)
    person = acting_person(connection, kind, context.signatory)
    recorded = dict(details or {})
    if versions and kind in ("added", "imported"):
        recorded["versions"] = version_facts(connection, model, versions)
    if release is not None:
        recorded |= {"members": member_facts(connection, release), "made": release_time(connection, release)}
    now = datetime.now(UTC)
    facts = {
        "id": (connection.scalar(select(func.max(EventRow.id))) or 0) + 1,
        "time": stored_time(now),
        "actor": context.actor if person is None else person.name,
        "kind": kind,
        "model": model,
        "alias": alias,
        "versions": list(versions),
        "release_id": release,
        "before_id": before,
        "reason": context.reason,
        "gates": None if context.gates is None else context.gates.model_dump(mode="json"),
        "overridden": context.overridden,
        "host": shown(current_host()),
        "details": recorded or None,
        "previous": chain_end(connection)[1],
    }
    if person is not None and context.signatory is not None:
        facts["details"] = {**recorded, "signed": _signed(connection, facts, context.signatory)}
    facts["hash"] = event_hash(facts)
    connection.execute(insert(EventRow).values({**facts, "time": now}))
    connection.execute(update(HeadRow).values(events=HeadRow.events + 1, hash=facts["hash"]))
    return events_where(connection, newest=1)[0]


def _signed(connection: Connection, facts: Mapping[str, Any], signatory: Signatory) -> dict[str, Any]:
    """The signature of an event that is about to be written, as its details hold it."""
    after, time = newest_about(connection, facts["model"], facts["alias"]), signatory.time()
    report = report_digest(facts["gates"])
    signature = signatory.sign(statement(registry_id(connection), facts, after, time, report))
    return {
        **({} if report is None else {"report": report}),
        "key": signatory.fingerprint,
        "after": after,
        "time": stored_time(time),
        "signature": base64.b64encode(signature).decode(),
    }


def insert_key(connection: Connection, key: ApiKey, context: AuditContext) -> None:
    """Inserts a key."""
    facts = {**asdict(key), "scopes": list(key.scopes)}
    connection.execute(insert(KeyRow).values(facts))
    times = {"created": stored_time(key.created), "expires": key.expires and stored_time(key.expires)}
    details = {name: fact for name, fact in {**facts, **times}.items() if name != "revoked"}
    insert_event(connection, "key-created", "", context, details=details)


def end_key(
    connection: Connection,
    key: ApiKey,
    ends: Literal["expires", "revoked"],
    time: datetime,
    context: AuditContext,
    **facts: str,
) -> None:
    """Sets when a key that was rotated expires, or when it was revoked; `facts` are the event's own."""
    connection.execute(update(KeyRow).where(KeyRow.id == key.id).values({ends: time}))
    details = {"id": key.id, "name": key.name, "sha256": key.sha256, ends: stored_time(time), **facts}
    kind: EventKind = "key-rotated" if ends == "expires" else "key-revoked"
    insert_event(connection, kind, "", context, details=details)
