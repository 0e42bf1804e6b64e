"""The schema of the database, the hash chain of events, and what events record.

The schema of the registry's database. A change here needs a migration and a new `SCHEMA`.

The hash chain of events: each holds the hash of the one before, so that none can change unnoticed.

An event's hash is sha256 of all else that is stored of it, as JSON: sorted keys, no spaces, UTF-8, times
as the text that is stored. The first event follows `GENESIS`.

The rows of versions and releases as events record them, so that the hash chain covers them too.

The statement that a person signs: what they did, to what, why and when, as canonical JSON.

It names the registry and, as `after`, the event that was the newest about the same model and alias, so that a
signature is good once, and in one registry.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    Dialect,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    func,
    select,
    type_coerce,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

SCHEMA: Final = "1"
"""The migration that makes the tables: the one schema that this dermfed reads and writes."""

SCHEMA_TABLE: Final = "dermfed_schema"


def stored_time(time: datetime) -> str:
    """The text that is stored of an aware time."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


class UtcTime(TypeDecorator[datetime]):
    """A time as ISO 8601 text in UTC, which sorts as text and reads back aware."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """The text of an aware time."""
        return None if value is None else stored_time(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """The time that a text says."""
        return None if value is None else datetime.fromisoformat(value)


class Table(DeclarativeBase):
    """Base of all tables."""


class VersionRow(Table):
    """One version of a model.

    `tones` are the values of its subgroup on `scale`; of one over several scales, which has no
    `scale`, the values by scale.
    """

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("model", "number", name="uq_versions_model_number"),
        UniqueConstraint("model", "digest", name="uq_versions_model_digest"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(100))
    number: Mapped[int]
    digest: Mapped[str] = mapped_column(String(71))
    model_digest: Mapped[str] = mapped_column(String(71))
    subgroup: Mapped[str] = mapped_column(Text)
    scale: Mapped[str | None] = mapped_column(Text)
    tones: Mapped[list[str] | dict[str, list[str]]] = mapped_column(JSON)
    created: Mapped[datetime] = mapped_column(UtcTime)


class ReleaseRow(Table):
    """One release; its members never change."""

    __tablename__ = "releases"
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(100))
    created: Mapped[datetime] = mapped_column(UtcTime)


class MemberRow(Table):
    """One version in a release; the primary key allows one for each subgroup."""

    __tablename__ = "release_members"
    release_id: Mapped[int] = mapped_column(
        ForeignKey("releases.id", name="fk_members_release"), primary_key=True
    )
    subgroup: Mapped[str] = mapped_column(Text, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id", name="fk_members_version"))


class AliasRow(Table):
    """The release that an alias of a model points to now."""

    __tablename__ = "aliases"
    model: Mapped[str] = mapped_column(String(100), primary_key=True)
    alias: Mapped[str] = mapped_column(String(100), primary_key=True)
    release_id: Mapped[int] = mapped_column(ForeignKey("releases.id", name="fk_aliases_release"))


class EventRow(Table):
    """One event of the audit log; `hash` is of all other columns, `previous` the hash of the event before."""

    __tablename__ = "events"
    __table_args__ = (
        Index("ix_events_model_alias", "model", "alias"),
        UniqueConstraint("hash", name="uq_events_hash"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime] = mapped_column(UtcTime)
    actor: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(100))
    alias: Mapped[str | None] = mapped_column(String(100))
    versions: Mapped[list[int]] = mapped_column(JSON)
    release_id: Mapped[int | None] = mapped_column(ForeignKey("releases.id", name="fk_events_release"))
    before_id: Mapped[int | None] = mapped_column(ForeignKey("releases.id", name="fk_events_before"))
    reason: Mapped[str | None] = mapped_column(Text)
    gates: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    overridden: Mapped[bool] = mapped_column(Boolean)
    host: Mapped[str | None] = mapped_column(Text)
    details: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    previous: Mapped[str] = mapped_column(String(71))
    hash: Mapped[str] = mapped_column(String(71))


class HeadRow(Table):
    """The head of the hash chain: how many events there are, and the hash of the last. One row, of id 1."""

    __tablename__ = "audit_head"
    id: Mapped[int] = mapped_column(primary_key=True)
    events: Mapped[int]
    hash: Mapped[str] = mapped_column(String(71))


class IdentityRow(Table):
    """The id of this registry, which its store holds too. One row, of id 1."""

    __tablename__ = "registry_identity"
    id: Mapped[int] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(String(32))
    created: Mapped[datetime] = mapped_column(UtcTime)


class PersonRow(Table):
    """One person, known by a public key; `fingerprint` is its sha256."""

    __tablename__ = "people"
    __table_args__ = (UniqueConstraint("fingerprint", name="uq_people_fingerprint"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    fingerprint: Mapped[str] = mapped_column(String(71))
    public_key: Mapped[str] = mapped_column(Text)
    roles: Mapped[list[str]] = mapped_column(JSON)
    created: Mapped[datetime] = mapped_column(UtcTime)
    revoked: Mapped[datetime | None] = mapped_column(UtcTime)


class WithdrawalRow(Table):
    """One version that must answer no more; its reason is that of the event."""

    __tablename__ = "withdrawals"
    version_id: Mapped[int] = mapped_column(
        ForeignKey("versions.id", name="fk_withdrawals_version"), primary_key=True
    )
    reason: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime] = mapped_column(UtcTime)


class TagRow(Table):
    """One tag of a version."""

    __tablename__ = "tags"
    version_id: Mapped[int] = mapped_column(
        ForeignKey("versions.id", name="fk_tags_version"), primary_key=True
    )
    tag: Mapped[str] = mapped_column(String(100), primary_key=True)


class GateSetRow(Table):
    """One numbered gate set of a model, or of all models where `model` is empty; of one alias, or of all."""

    __tablename__ = "gate_sets"
    __table_args__ = (UniqueConstraint("model", "number", name="uq_gate_sets_model_number"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(100))
    number: Mapped[int]
    created: Mapped[datetime] = mapped_column(UtcTime)
    actor: Mapped[str] = mapped_column(Text)
    content: Mapped[Any] = mapped_column(JSON)
    alias: Mapped[str] = mapped_column(String(100), server_default="")


class SignatureRow(Table):
    """One signature of a version; its bytes are an object of the store."""

    __tablename__ = "signatures"
    version_id: Mapped[int] = mapped_column(
        ForeignKey("versions.id", name="fk_signatures_version"), primary_key=True
    )
    object: Mapped[str] = mapped_column(String(71), primary_key=True)
    identity: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime] = mapped_column(UtcTime)


class KeyRow(Table):
    """One API key of the service; of the secret, its sha256."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("sha256", name="uq_api_keys_sha256"),)
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    sha256: Mapped[str] = mapped_column(String(71))
    created: Mapped[datetime] = mapped_column(UtcTime)
    revoked: Mapped[datetime | None] = mapped_column(UtcTime)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    expires: Mapped[datetime | None] = mapped_column(UtcTime)
    per_minute: Mapped[int | None]
    replaces: Mapped[str | None] = mapped_column(String(32))


GENESIS: Final = "sha256:" + 64 * "0"
"""The hash that the first event follows."""


def canonical_json(facts: Mapping[str, Any]) -> bytes:
    """The canonical JSON of these facts: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def event_hash(facts: Mapping[str, Any]) -> str:
    """The hash of an event, over all its columns but `hash`."""
    hashed = {name: fact for name, fact in facts.items() if name != "hash"}
    return f"sha256:{hashlib.sha256(canonical_json(hashed)).hexdigest()}"


_CREATED = type_coerce(VersionRow.created, String).label("created")  # as it is stored


def version_facts(
    connection: Connection, model: str, numbers: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    """The rows of these versions of a model, or of all, in the order of their numbers."""
    query = (
        select(
            VersionRow.number,
            VersionRow.digest,
            VersionRow.model_digest,
            VersionRow.subgroup,
            VersionRow.scale,
            VersionRow.tones,
            _CREATED,
        )
        .where(VersionRow.model == model)
        .order_by(VersionRow.number)
    )
    if numbers is not None:
        query = query.where(VersionRow.number.in_(numbers))
    return [dict(row._mapping) for row in connection.execute(query)]


def release_time(connection: Connection, release: int) -> str | None:
    """When the release was made, as it is stored; None where there is no such release."""
    query = select(type_coerce(ReleaseRow.created, String)).where(ReleaseRow.id == release)
    return connection.scalar(query)


def member_facts(connection: Connection, release: int) -> list[dict[str, Any]]:
    """The versions of a release and whom each is for, in the order of their numbers."""
    query = (
        select(VersionRow.number, VersionRow.digest, MemberRow.subgroup)
        .join(MemberRow, MemberRow.version_id == VersionRow.id)
        .where(MemberRow.release_id == release)
        .order_by(VersionRow.number)
    )
    return [dict(row._mapping) for row in connection.execute(query)]


_NOT_SIGNED: Final = ("signed", "made")
"""Facts of an event's details that whoever signs cannot know before: the signature, a release's time."""


def registry_id(connection: Connection) -> str:
    """The id of this registry, 32 hex digits; empty where the database has lost it."""
    return connection.scalar(select(IdentityRow.identity)) or ""


def newest_about(connection: Connection, model: str, alias: str | None) -> int:
    """The id of the newest event about a model and an alias, or about a model and none; 0 without any."""
    about = (EventRow.model == model, EventRow.alias.is_(None) if alias is None else EventRow.alias == alias)
    return connection.scalar(select(func.max(EventRow.id)).where(*about)) or 0


def report_digest(gates: Mapping[str, Any] | None) -> str | None:
    """The digest of what the gates said, as an event holds it; None where none was asked."""
    return None if gates is None else f"sha256:{hashlib.sha256(canonical_json(gates)).hexdigest()}"


def statement(
    registry: str, event: Mapping[str, Any], after: int, time: datetime | str, report: str | None
) -> bytes:
    """What is signed of an event.

    Args:
        registry: the registry's id.
        event: its facts as `registry.database.tables.event_hash` takes them.
        after: the newest event about the same model and alias before it.
        time: when it is signed.
        report: the digest of what the gates said.
    """
    gates = event["gates"]
    details = {name: fact for name, fact in (event["details"] or {}).items() if name not in _NOT_SIGNED}
    return canonical_json(
        {
            "registry": registry,
            "kind": event["kind"],
            "actor": event["actor"],
            "model": event["model"],
            "alias": event["alias"],
            "versions": list(event["versions"]),
            "reason": event["reason"],
            "overridden": event["overridden"],
            "before": event["before_id"],
            "gates": None
            if gates is None
            else {"model": gates["set_model"], "number": gates["set_number"], "report": report},
            "details": details,
            "after": after,
            "time": time if isinstance(time, str) else stored_time(time),
        }
    )
