"""The queries of the registry: rows of the tables as records, running canaries, and people.

Which canary runs follows from events alone: the newest event of an alias that moves it, or starts or ends a
canary, decides. Who may do what is decided by the role of the person whose key has signed it.
"""

import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    Text,
    and_,
    cast,
    func,
    or_,
    select,
    type_coerce,
)

from registry.bundle.labels import Subgroup
from registry.database.tables import (
    AliasRow,
    EventRow,
    HeadRow,
    KeyRow,
    MemberRow,
    PersonRow,
    ReleaseRow,
    VersionRow,
    WithdrawalRow,
    canonical_json,
    registry_id,
)
from registry.errors import DatabaseError, PersonRefused
from registry.gate_report import GateReport
from registry.names import no_such_version, not_found
from registry.records import (
    CANARY_MOVES,
    MOVES,
    ROLE_FOR,
    ApiKey,
    Canary,
    Event,
    EventKind,
    Person,
    Release,
    SiteStatus,
    Version,
    Withdrawal,
)

T = TypeVar("T")

_VERSION = (
    VersionRow.model,
    VersionRow.number,
    VersionRow.digest,
    VersionRow.subgroup,
    VersionRow.scale,
    cast(VersionRow.tones, Text).label("tones"),  # thousands of versions share a few
    VersionRow.created,
)
_LARGEST = 2**31 - 1  # what an INTEGER holds in every database


def model_names(connection: Connection) -> tuple[str, ...]:
    """Every model that has a version."""
    return tuple(sorted(connection.scalars(select(VersionRow.model).distinct())))


def require_model(connection: Connection, model: str) -> None:
    """Checks that the model has a version.

    Raises:
        NotFound: it has none.
    """
    if connection.scalar(select(VersionRow.id).where(VersionRow.model == model).limit(1)) is None:
        raise not_found("model", model, model_names(connection))


def all_versions(connection: Connection, model: str | None, newest: int | None = None) -> tuple[Version, ...]:
    """Every version, of one model or of all; or only so many, those that were added last."""
    query = select(*_VERSION)
    if model is not None:
        query = query.where(VersionRow.model == model)
    if newest is not None:
        query = query.order_by(VersionRow.id.desc()).limit(newest)
    versions = map(_version, connection.execute(query).all())
    return tuple(sorted(versions, key=lambda one: (one.model, one.number)))


def version_count(connection: Connection, model: str | None) -> int:
    """How many versions there are, of one model or of all."""
    query = select(func.count()).select_from(VersionRow)
    return connection.scalar(query if model is None else query.where(VersionRow.model == model)) or 0


def versions_by_number(connection: Connection, model: str, numbers: Sequence[int]) -> tuple[Version, ...]:
    """These versions, in this order.

    Raises:
        NotFound: the model has no such version, or there is no such model.
    """
    storable = [number for number in numbers if 0 < number <= _LARGEST]
    query = select(*_VERSION).where(VersionRow.model == model, VersionRow.number.in_(storable))
    found = {row.number: _version(row) for row in connection.execute(query)}
    for number in numbers:
        if number not in found:
            require_model(connection, model)
            known = connection.scalars(select(VersionRow.number).where(VersionRow.model == model))
            raise no_such_version(model, number, known)
    return tuple(found[number] for number in numbers)


def version_id(connection: Connection, model: str, number: int) -> int:
    """The id of the row of a version that is there."""
    return connection.scalars(
        select(VersionRow.id).where(VersionRow.model == model, VersionRow.number == number)
    ).one()


def version_by_digest(connection: Connection, model: str, digest: str) -> Version | None:
    """The version of a bundle, by its digest, if it was added."""
    query = select(*_VERSION).where(VersionRow.model == model, VersionRow.digest == digest)
    row = connection.execute(query).first()
    return None if row is None else _version(row)


def current_releases(connection: Connection, alias: str) -> dict[str, Release]:
    """Every model's release under the alias, by model."""
    return {one.model: one for one in _pointed_to(connection, AliasRow.alias == alias)}


def current_release(connection: Connection, model: str, alias: str) -> Release | None:
    """The release that the alias points to, if it points to any."""
    found = _pointed_to(connection, AliasRow.alias == alias, AliasRow.model == model)
    return found[0] if found else None


def release_by_id(connection: Connection, release: int) -> Release | None:
    """A release, whether or not any alias points to it."""
    query = (
        select(ReleaseRow.model.label("of"), *_VERSION)
        .join(MemberRow, MemberRow.release_id == ReleaseRow.id)
        .join(VersionRow, VersionRow.id == MemberRow.version_id)
        .where(ReleaseRow.id == release)
    )
    rows = connection.execute(query).all()
    return Release(release, rows[0].of, tuple(_version(row[1:]) for row in rows)) if rows else None


def stated_prevalence(connection: Connection, model: str, release: int) -> dict[str, float]:
    """The prevalence of malignancy at the place that was stated with a release, by subgroup; mostly none."""
    query = (
        select(EventRow.details)
        .where(
            EventRow.model == model,
            EventRow.release_id == release,
            EventRow.kind.in_(("promoted", "canary-started")),
        )
        .order_by(EventRow.id.desc())
        .limit(1)
    )
    return dict((connection.scalar(query) or {}).get("prevalence", {}))


def alias_names(connection: Connection, model: str) -> tuple[str, ...]:
    """The aliases of a model."""
    return tuple(sorted(connection.scalars(select(AliasRow.alias).where(AliasRow.model == model))))


def events_where(
    connection: Connection, *which: ColumnElement[bool], newest: int | None = None
) -> tuple[Event, ...]:
    """The events that meet all of these conditions, the oldest first; or only so many, the newest."""
    query = select(*EventRow.__table__.columns).where(*which).order_by(EventRow.id.desc()).limit(newest)
    return tuple(_event(row) for row in reversed(connection.execute(query).all()))


def by_alias(
    connection: Connection, model: str, query: Callable[[Connection, str, str], T | None]
) -> dict[str, T]:
    """What a query finds for each alias of a model, by alias; without those of which it finds nothing."""
    found = {alias: query(connection, model, alias) for alias in alias_names(connection, model)}
    return {alias: one for alias, one in found.items() if one is not None}


def standing(connection: Connection, alias: str) -> SiteStatus:
    """What may answer under an alias, and what must not.

    Services ask twice a second: of the events, only those of models without a release are read.
    """
    releases = current_releases(connection, alias)
    without = [model for model in model_names(connection) if model not in releases]
    events, newest = head(connection)
    canaries = {model: running_canary(connection, model, alias) for model in releases}
    return SiteStatus(
        releases,
        frozenset(model for model in without if stops(connection, model, alias)),
        frozenset((one.model, one.digest) for one in withdrawals(connection)),
        events,
        newest,
        {model: one for model, one in canaries.items() if one is not None},
    )


def moves_of(connection: Connection, model: str, alias: str) -> tuple[tuple[str, int | None], ...]:
    """What moved an alias, the oldest first: the kind of each event, and the release it moved to.

    Nothing else of the events is read: gate reports are long, and there may be very many.
    """
    query = select(EventRow.kind, EventRow.release_id).where(
        EventRow.model == model, EventRow.alias == alias, EventRow.kind.in_(MOVES)
    )
    return tuple((kind, release) for kind, release in connection.execute(query.order_by(EventRow.id)))


def last_move(
    connection: Connection,
    model: str,
    alias: str,
    kinds: Sequence[EventKind] = MOVES,
    *,
    before: int | None = None,
) -> int:
    """The id of the event that moved an alias last, of those before an event; 0 where none has."""
    query = select(func.max(EventRow.id)).where(
        EventRow.model == model, EventRow.alias == alias, EventRow.kind.in_(kinds)
    )
    return connection.scalar(query if before is None else query.where(EventRow.id < before)) or 0


def with_gates(model: str) -> ColumnElement[bool]:
    """The events of a model, and those that changed the gates of all models."""
    return or_(EventRow.model == model, and_(EventRow.model == "", EventRow.kind == "gates-changed"))


def count_events(connection: Connection, which: ColumnElement[bool]) -> int:
    """How many events meet this condition."""
    return connection.scalar(select(func.count()).select_from(EventRow).where(which)) or 0


def gate_events(connection: Connection, model: str, alias: str, release: int) -> tuple[Event, ...]:
    """What changed the gates of a model or of all, and promotions of a release to an alias, the oldest first.

    Nothing else is read: gate reports are long, and there may be very many.
    """
    changed = and_(EventRow.kind == "gates-changed", EventRow.model.in_((model, "")))
    promoted = and_(
        EventRow.model == model,
        EventRow.alias == alias,
        EventRow.kind == "promoted",
        EventRow.release_id == release,
    )
    return events_where(connection, or_(changed, promoted))


def head(connection: Connection) -> tuple[int, str]:
    """How many events there are, and the hash of the newest; 0 and empty where the database has lost it."""
    row = connection.execute(select(HeadRow.events, HeadRow.hash)).first()
    return (0, "") if row is None else (row.events, row.hash)


def chain_end(connection: Connection) -> tuple[int, str]:
    """How many events there are, and the hash of the newest, or that which the first one follows.

    Raises:
        DatabaseError: the database has lost it.
    """
    events, newest = head(connection)
    if not newest:
        raise DatabaseError(
            "the database does not say where its chain of events ends, so that none can be added; run "
            "`dermfed-registry verify`, and restore a copy of the database"
        )
    return events, newest


def has_event(connection: Connection, digest: str) -> bool:
    """Whether there is an event of this hash."""
    return connection.scalar(select(EventRow.id).where(EventRow.hash == digest)) is not None


def stack_of(steps: Iterable[tuple[str, int | None]]) -> list[int | None]:
    """The stack of releases of one alias, from the kinds and releases of its events.

    A promotion pushes a release, and a stop pushes None; a rollback pops down to the release that it names.
    A promotion after a stop begins a new stack: what was stopped is nothing to go back to by chance.
    """
    stack: list[int | None] = []
    for kind, release in steps:
        if kind == "promoted" and release is not None:
            stack = [*(stack if stack and stack[-1] is not None else []), release]
        elif kind == "stopped" and stack and stack[-1] is not None:
            stack.append(None)
        elif kind == "rolled-back" and stack:
            reached = stack.index(release) if release in stack[:-1] else len(stack) - 2
            stack = stack[: reached + 1]
    return stack


def stops(connection: Connection, model: str | None = None, alias: str | None = None) -> tuple[Event, ...]:
    """The stops that hold: the newest move of each alias, where it is one; by model and alias."""
    newest = select(func.max(EventRow.id)).where(EventRow.kind.in_(MOVES), EventRow.alias.is_not(None))
    if model is not None:
        newest = newest.where(EventRow.model == model)
    if alias is not None:
        newest = newest.where(EventRow.alias == alias)
    newest = newest.group_by(EventRow.model, EventRow.alias)
    found = events_where(connection, EventRow.kind == "stopped", EventRow.id.in_(newest))
    return tuple(sorted(found, key=lambda one: (one.model, one.alias or "")))


def withdrawals(connection: Connection, model: str | None = None) -> tuple[Withdrawal, ...]:
    """Every withdrawal, of one model or of all, in the order of the versions' numbers."""
    if not _any_withdrawn(connection):
        return ()
    query = (
        select(
            VersionRow.model,
            VersionRow.number,
            VersionRow.digest,
            VersionRow.model_digest,
            WithdrawalRow.reason,
            WithdrawalRow.created,
        )
        .join(WithdrawalRow, WithdrawalRow.version_id == VersionRow.id)
        .order_by(VersionRow.model, VersionRow.number)
    )
    if model is not None:
        query = query.where(VersionRow.model == model)
    return tuple(Withdrawal(**row._mapping) for row in connection.execute(query))


def _any_withdrawn(connection: Connection) -> bool:
    """Whether any version was withdrawn: mostly none was, and all versions need not be looked through."""
    return connection.scalar(select(WithdrawalRow.version_id).limit(1)) is not None


def withdrawn_members(connection: Connection, model: str) -> dict[int, tuple[int, ...]]:
    """The numbers of the withdrawn versions in each release of a model that holds any."""
    if not _any_withdrawn(connection):
        return {}
    query = (
        select(MemberRow.release_id, VersionRow.number)
        .join(VersionRow, VersionRow.id == MemberRow.version_id)
        .join(WithdrawalRow, WithdrawalRow.version_id == VersionRow.id)
        .where(VersionRow.model == model)
        .order_by(VersionRow.number)
    )
    found: dict[int, tuple[int, ...]] = {}
    for release, number in connection.execute(query):
        found[release] = (*found.get(release, ()), number)
    return found


def same_model_file(connection: Connection, digest: str) -> tuple[tuple[str, int], ...]:
    """The model and number of every version with this `model.onnx`."""
    query = select(VersionRow.model, VersionRow.number).where(VersionRow.model_digest == digest)
    return tuple((model, number) for model, number in connection.execute(query.order_by(VersionRow.id)))


def model_digests(connection: Connection, versions: Sequence[Version]) -> dict[int, str]:
    """The digest of the `model.onnx` of each of these versions of one model, by number."""
    if not versions:
        return {}
    query = select(VersionRow.number, VersionRow.model_digest).where(
        VersionRow.model == versions[0].model, VersionRow.number.in_([one.number for one in versions])
    )
    return {row.number: row.model_digest for row in connection.execute(query)}


def all_keys(connection: Connection) -> tuple[ApiKey, ...]:
    """Every key, revoked ones too, the oldest first."""
    query = select(*KeyRow.__table__.columns).order_by(KeyRow.created, KeyRow.id)
    return tuple(ApiKey(**{**row._mapping, "scopes": tuple(row.scopes)}) for row in connection.execute(query))


def _pointed_to(connection: Connection, *which: ColumnElement[bool]) -> list[Release]:
    query = (
        select(ReleaseRow.id.label("release"), *_VERSION)
        .select_from(AliasRow)
        .join(ReleaseRow, ReleaseRow.id == AliasRow.release_id)
        .join(MemberRow, MemberRow.release_id == ReleaseRow.id)
        .join(VersionRow, VersionRow.id == MemberRow.version_id)
        .where(*which)
    )
    members: dict[tuple[int, str], list[Version]] = {}
    for row in connection.execute(query):
        members.setdefault((row.release, row.model), []).append(_version(row[1:]))
    found = sorted(members.items(), key=lambda one: one[0][1])
    return [Release(number, model, tuple(versions)) for (number, model), versions in found]


def _version(row: Sequence[Any]) -> Version:
    model, number, digest, subgroup, scale, tones, created = row
    return Version(model, number, digest, _subgroup(subgroup, scale, tones), created)


@lru_cache(maxsize=1024)
def _subgroup(name: str, scale: str | None, tones: str) -> Subgroup:
    read = json.loads(tones)
    if isinstance(read, dict):
        return Subgroup(name=name, tones={each: tuple(values) for each, values in read.items()})
    return Subgroup(name=name, scale=scale, values=tuple(read))


def _event(row: "Row[*tuple[Any, ...]]") -> Event:
    facts = dict(row._mapping)
    gates = facts.pop("gates")
    return Event(
        release=facts.pop("release_id"),
        before=facts.pop("before_id"),
        versions=tuple(facts.pop("versions")),
        gates=None if gates is None else GateReport.model_validate(gates),
        **facts,
    )


_PURPOSE: Final = b"dermfed canary 1: "


def running_canary(connection: Connection, model: str, alias: str) -> Canary | None:
    """The canary of an alias; None where none runs, or a version of it was withdrawn."""
    query = (
        select(*EventRow.__table__.columns)
        .where(EventRow.model == model, EventRow.alias == alias, EventRow.kind.in_(CANARY_MOVES))
        .order_by(EventRow.id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None or row.kind != "canary-started" or row.before_id is None:
        return None
    release, details = release_by_id(connection, row.release_id), row.details or {}
    if release is None or release.id in withdrawn_members(connection, model):
        return None
    share, key = details.get("share"), _key(connection, details.get("first", row.id))
    if key is None or not isinstance(share, float) or not 0 < share <= 1:
        return None  # as another dermfed may write it: what this one cannot tell, answers nobody
    return Canary(
        alias,
        release,
        row.before_id,
        share,
        details.get("subgroup"),
        details.get("mirror") is True,
        row.id,
        row.time,
        row.actor,
        row.reason,
        key,
    )


def first_event(connection: Connection, canary: Canary) -> int:
    """The event by which a canary began, before its share was changed."""
    details = connection.scalar(select(EventRow.details).where(EventRow.id == canary.event)) or {}
    return int(details.get("first", canary.event))


def ended_with(canary: Canary | None) -> dict[str, Any]:
    """What the event says that ends a canary: which; nothing where none runs."""
    return {} if canary is None else {"canary": canary.release.id}


def _key(connection: Connection, first: int) -> bytes | None:
    """The key of a canary: of all that its first event says, and the registry's id; None without that event.

    An event records its microsecond and the hash of the event before it, which the service discloses to no
    caller. A reader of the database can compute the key. The event's own hash would not do: heads of the
    chain are kept elsewhere and may be published.
    """
    columns = [
        type_coerce(column, String).label(column.name) if column.name == "time" else column
        for column in EventRow.__table__.columns
    ]
    row = connection.execute(select(*columns).where(EventRow.id == first)).one_or_none()
    if row is None:
        return None
    facts = dict(row._mapping)
    return hmac.digest(registry_id(connection).encode(), _PURPOSE + canonical_json(facts), "sha256")


class Signatory(Protocol):
    """A person who signs what they do.

    Attributes:
        fingerprint: sha256 of their public key.
    """

    fingerprint: str

    def time(self) -> datetime:
        """When they say that it is."""

    def sign(self, statement: bytes) -> bytes:
        """Their signature (DER) over this statement.

        Raises:
            PersonRefused: they will not, or have signed another statement.
        """


def all_people(connection: Connection) -> tuple[Person, ...]:
    """All people whom the registry knows, revoked ones too, in the order of adding."""
    query = select(*PersonRow.__table__.columns).order_by(PersonRow.id)
    return tuple(
        Person(row.name, row.fingerprint, row.public_key, tuple(row.roles), row.created, row.revoked)
        for row in connection.execute(query)
    )


def active_people(connection: Connection) -> dict[str, Person]:
    """All people whose key is not revoked, by its fingerprint."""
    return {one.fingerprint: one for one in all_people(connection) if one.revoked is None}


def acting_person(connection: Connection, kind: EventKind, signatory: Signatory | None) -> Person | None:
    """Who does this: the person of the signing key; None if the registry knows no people.

    Raises:
        PersonRefused: the registry knows people, and none of them who may do this has signed it.
    """
    everybody = all_people(connection)
    people = {one.fingerprint: one for one in everybody if one.revoked is None}
    role = ROLE_FOR.get(kind)
    if not people and (kind == "person-added" or not everybody):
        return None  # nobody is known yet: the first person, and all that is done before, is nobody's word
    if signatory is None:
        if people and role is not None:
            able = ", ".join(sorted(one.name for one in people.values() if role in one.roles)) or "nobody"
            raise PersonRefused(
                f"this is for an {role} ({able}), and nobody has signed it; "
                "add --key FILE with your private key, or set DERMFED_SIGNING_KEY to that file"
            )
        return None
    person = people.get(signatory.fingerprint)
    if person is None:
        known = next((one for one in everybody if one.fingerprint == signatory.fingerprint), None)
        why = "is of nobody whom the registry knows" if known is None else f"of {known.name} was revoked"
        raise PersonRefused(
            f"the key {signatory.fingerprint} {why}; `dermfed-registry people list` shows who is known, and "
            "`dermfed-registry people add` adds somebody"
        )
    if role is not None and role not in person.roles:
        raise PersonRefused(
            f"{person.name} is {' and '.join(person.roles)}, and this is for {role}s; have one of them do it"
        )
    return person
