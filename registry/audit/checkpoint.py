"""Heads of the chain of events: signed in the chain itself, and kept where nobody here can change them.

A head is how many events there are, and the hash of the last. Whoever may do anything in the database can
write a whole new chain that holds. A head that a person signed cannot be made anew without their key, but it
can be left out, and so can the person. A head that was kept elsewhere tells of any other chain, and of a
shorter one.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)
from sqlalchemy import Connection, Engine, select

from registry.database.action import registry_id
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.hash_chain import GENESIS, canonical_json
from registry.database.tables import EventRow, HeadRow
from registry.errors import DatabaseError, InvalidName, PersonRefused, StampError
from registry.records import RESTORE, Event, IntegrityIssue

if TYPE_CHECKING:  # time stamps need an extra
    from registry.audit.time_stamp import Authorities

_TEXT = re.compile(r"(\d{1,18}):(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True)
class Head:
    """The head of a chain: how many events it has, and the hash of the last; its text is `N:HASH`."""

    events: int
    hash: str

    def __str__(self) -> str:
        return f"{self.events}:{self.hash}"


def _decoded(given: str | bytes) -> bytes:
    return given if isinstance(given, bytes) else base64.b64decode(given, validate=True)


_AS_BASE64 = PlainSerializer(lambda stamp: base64.b64encode(stamp).decode(), str, when_used="json")


class KeptHead(BaseModel):
    """A head as a file keeps it.

    Attributes:
        registry: the id of the registry; None where a head was given as text.
        events: how many events there are.
        hash: the hash of the last.
        time: when it was written down, by the clock there.
        signed: the signature of the event `head-signed`, if a person has signed this head: `event`, `actor`,
            and `key`, `after`, `time` and `signature` as the event holds them.
        stamp: the answer of a time stamping authority (RFC 3161), if one was asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    events: Annotated[int, Field(ge=0)]
    hash: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    time: AwareDatetime | None = None
    signed: dict[str, Any] | None = None
    stamp: Annotated[bytes, BeforeValidator(_decoded), _AS_BASE64] | None = None

    @classmethod
    def read(cls, given: str) -> Self:
        """The head that is given as `N:HASH`, or kept in the file of this name.

        Raises:
            InvalidName: it is neither.
        """
        if (said := _TEXT.fullmatch(given)) is not None:
            return cls(events=int(said[1]), hash=f"sha256:{said[2]}")
        try:
            return cls.model_validate_json(Path(given).read_bytes())
        except OSError as error:
            raise InvalidName(
                f"the head {given!r} is no file that can be read ({error.strerror}), nor N:HASH as "
                "`dermfed-registry head` prints it"
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InvalidName(
                f"{given} keeps no head ({where}: {first['msg']}); give a file that `dermfed-registry head "
                "--out FILE` has written"
            ) from error

    @property
    def head(self) -> Head:
        """The head itself."""
        return Head(self.events, self.hash)


@dataclass(frozen=True)
class ComparedHead:
    """A head that was kept, compared with the chain.

    Attributes:
        head: the head, with its time stamp if there is one.
        issue: what is wrong; None where the chain is still the same up to there.
        stamped: when it was stamped, if a trusted authority says so.
    """

    head: KeptHead
    issue: IntegrityIssue | None
    stamped: datetime | None = None


def stamped_bytes(registry: str, head: Head) -> bytes:
    """What a time stamp of a head is of: canonical JSON of the registry's id, the events and the hash."""
    return canonical_json({"registry": registry, "events": head.events, "hash": head.hash})


def keep_head(engine: Engine) -> KeptHead:
    """The head of the chain now.

    Raises:
        DatabaseError: the database does not say where its chain ends.
    """
    with reading(engine) as connection:
        return KeptHead(
            registry=registry_id(connection) or None, **_kept(_head(connection)), time=datetime.now(UTC)
        )


def sign_head(engine: Engine, context: AuditContext) -> tuple[KeptHead, Event]:
    """Signs the head of the chain: appends an event `head-signed` that tells of it; returns both.

    Raises:
        PersonRefused: nobody signs, or not an operator.
        DatabaseError: the database does not say where its chain ends.
    """
    if context.signatory is None:
        raise PersonRefused(
            "a head is signed with an operator's key; add --key FILE with your private key, or set "
            "DERMFED_SIGNING_KEY to that file"
        )
    with writing(engine) as connection:
        head = _head(connection)
        event = insert_event(connection, "head-signed", "", context, details=_kept(head))
        signed = {"event": event.id, "actor": event.actor, **(event.details or {})["signed"]}
        kept = KeptHead(
            registry=registry_id(connection) or None, **_kept(head), time=event.time, signed=signed
        )
    return kept, event


def signed_head_issues(events: Iterable[Mapping[str, Any]]) -> Iterator[IntegrityIssue]:
    """Finds signed heads that are not of the chain before them; their signatures are checked with all others.

    Args:
        events: all of them, as `registry.audit.log.stored_events` returns them.
    """
    for place, event in enumerate(events):
        if event["kind"] != "head-signed":
            continue
        details = event["details"] or {}
        said, there = (details.get("events"), details.get("hash")), (place, event["previous"])
        if said != there:
            yield IntegrityIssue(
                f"event {event['id']}",
                f"it tells of a head of {said[0]} events, of hash {said[1]}, and before it are {there[0]}, "
                f"of hash {there[1]}: the chain was written anew; {RESTORE}",
            )


def compare_heads(
    engine: Engine,
    heads: Sequence[KeptHead],
    authorities: "Authorities | None" = None,
    stamps: Mapping[str, bytes] | None = None,
) -> tuple[ComparedHead, ...]:
    """Compares heads that were kept with the chain, each with its time stamp if authorities are trusted.

    Args:
        engine: the database.
        heads: those that were kept.
        authorities: whose time stamps count; a head without one is then an issue, too.
        stamps: answers of authorities that were kept apart from the heads, by the name of their file.

    Raises:
        StampError: one of `stamps` is of none of the heads.
    """
    with reading(engine) as connection:
        registry = registry_id(connection)
        hashes = (GENESIS, *connection.scalars(select(EventRow.hash).order_by(EventRow.id)))
        signed = _signed_heads(connection)
    stamped = _with_stamps(registry, list(heads), stamps or {})
    return tuple(_compared(one, registry, hashes, signed, authorities) for one in stamped)


def _signed_heads(connection: Connection) -> list[dict[str, Any]]:
    """What each event `head-signed` says of its signature, in the form in which a file keeps it."""
    query = select(EventRow.id, EventRow.actor, EventRow.details).where(EventRow.kind == "head-signed")
    return [
        {"event": row.id, "actor": row.actor, **row.details["signed"]}
        for row in connection.execute(query)
        if isinstance(row.details, dict) and isinstance(row.details.get("signed"), dict)
    ]


def _with_stamps(registry: str, heads: list[KeptHead], stamps: Mapping[str, bytes]) -> list[KeptHead]:
    """The heads, each with the stamp that says to be of it."""
    for file, stamp in stamps.items():
        from registry.audit.time_stamp import is_of  # needs an extra

        try:
            own = [is_of(stamp, stamped_bytes(one.registry or registry, one.head)) for one in heads]
        except StampError as error:
            raise StampError(f"{file}: {error}") from error
        if not any(own):
            raise StampError(f"the time stamp in {file} is of none of the heads that --head names")
        heads = [
            one.model_copy(update={"stamp": stamp}) if its else one
            for one, its in zip(heads, own, strict=True)
        ]
    return heads


def _compared(
    kept: KeptHead,
    registry: str,
    hashes: Sequence[str],
    signed: Sequence[Mapping[str, Any]],
    authorities: "Authorities | None",
) -> ComparedHead:
    about = f"the head of {kept.events} events"
    if kept.registry not in (None, registry):
        issue = f"it was kept of the registry {kept.registry}, and this one is {registry or 'without an id'}"
        return ComparedHead(kept, IntegrityIssue(about, f"{issue}; name the right one with --url"))
    if kept.events >= len(hashes):
        issue = f"there are {len(hashes) - 1} now: events after them were removed; {RESTORE}"
        return ComparedHead(kept, IntegrityIssue(about, issue))
    if (there := hashes[kept.events]) != kept.hash:
        issue = f"the hash was {kept.hash} and is {there}: the chain was written anew; {RESTORE}"
        return ComparedHead(kept, IntegrityIssue(about, issue))
    if kept.signed is not None and kept.signed not in signed:
        issue = "the file tells of a signature of it that no event holds: the file or the chain was changed"
        return ComparedHead(kept, IntegrityIssue(about, f"{issue}; {RESTORE}"))
    if authorities is None:
        return ComparedHead(kept, None)
    if kept.stamp is None:
        issue = "it has no time stamp; give the authority's answer with --stamp FILE"
        return ComparedHead(kept, IntegrityIssue(about, issue))
    try:
        stamped = authorities.time_of(kept.stamp, stamped_bytes(registry, kept.head))
    except StampError as error:
        return ComparedHead(kept, IntegrityIssue(about, str(error)))
    return ComparedHead(kept, None, stamped)


def _head(connection: Connection) -> Head:
    end = connection.execute(select(HeadRow.events, HeadRow.hash)).first()
    if end is None:
        raise DatabaseError(
            "the database does not say where its chain of events ends; run `dermfed-registry verify`, and "
            "restore a copy of the database"
        )
    return Head(end.events, end.hash)


def _kept(head: Head) -> dict[str, Any]:
    return {"events": head.events, "hash": head.hash}
