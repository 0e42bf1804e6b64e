"""Audit: stored events and their hash chain, heads kept elsewhere, and every integrity check of `verify`.

Everything here reads the stored text of events, not the records made from it.

- The hash chain shows a changed, removed or inserted event.
- Who may do anything in the database can write a whole new chain that is valid. A head, the number of
  events and the hash of the last, that was kept elsewhere shows any other chain, and a shorter one.
- What decides who answers and who may ask (versions, releases, aliases, withdrawals, tags, keys and gate
  sets) is compared with the newest event about it; nothing is replayed.
- Every object that versions and imports need is read and its digest compared.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, Engine, String, Text, cast, select, type_coerce

from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE
from registry.bundle.text import STEERS
from registry.database.connection import integrity_failures, reading, schema_differences
from registry.database.queries import chain_end, model_names, stack_of, withdrawals, withdrawn_members
from registry.database.tables import (
    GENESIS,
    AliasRow,
    EventRow,
    GateSetRow,
    HeadRow,
    KeyRow,
    ReleaseRow,
    VersionRow,
    canonical_json,
    event_hash,
    member_facts,
    registry_id,
    stored_time,
    version_facts,
)
from registry.errors import InvalidName, StoreError
from registry.names import INDEX_FILE
from registry.people import person_issues
from registry.records import MOVES, RESTORE, IntegrityIssue
from registry.releases.gate_sets import gate_set_digest
from registry.releases.labels import all_tags
from registry.signed_versions import signature_issues
from registry.store import Store
from registry.stored_bundles import require_not_lost

if TYPE_CHECKING:
    from registry.signing_keys import Trust

_JSON = ("versions", "gates", "details")


def stored_events(connection: Connection, model: str | None = None) -> Iterator[dict[str, Any]]:
    """Every event as it is stored, of one model or of all, the oldest first.

    A column that should be JSON and is not comes as text.
    """
    columns = [
        cast(column, Text).label(column.name)
        if column.name in _JSON
        else type_coerce(column, String).label(column.name)
        if column.name == "time"
        else column
        for column in EventRow.__table__.columns
    ]
    query = select(*columns).order_by(EventRow.id)
    if model is not None:
        query = query.where(EventRow.model == model)
    for row in connection.execute(query).mappings():
        yield {name: _parsed(fact) if name in _JSON else fact for name, fact in row.items()}


def event_line(facts: dict[str, Any]) -> bytes:
    r"""An event as one line of canonical JSON, its hash included; what would steer a terminal as `\u009b`."""
    text = canonical_json(facts).decode("utf-8", "surrogatepass")
    return STEERS.sub(_as_json, text).encode() + b"\n"


def chain_issues(connection: Connection, events: Iterable[dict[str, Any]]) -> Iterator[IntegrityIssue]:
    """Checks the hash chain: the first event that breaks it, or an end other than `audit_head` says."""
    last, number, length = GENESIS, None, 0
    for facts in events:
        about = f"event {facts['id']}"
        try:
            computed = event_hash(facts)
        except ValueError as error:
            computed = f"none ({error})"
        if computed != facts["hash"]:
            yield IntegrityIssue(
                about,
                f"it was changed: its hash is {facts['hash']}, and what it says gives {computed}; {RESTORE}",
            )
            return
        if facts["previous"] != last:
            after = "the first" if number is None else f"event {number}"
            yield IntegrityIssue(
                about,
                f"it follows an event of hash {facts['previous']}, and before it comes "
                f"{'nothing' if number is None else f'{after}, of hash {last}'}: "
                f"an event between was removed or put in; {RESTORE}",
            )
            return
        last, number, length = facts["hash"], facts["id"], length + 1
    ends = connection.execute(select(HeadRow.events, HeadRow.hash)).all()
    if len(ends) != 1:
        yield IntegrityIssue("audit_head", f"it has {len(ends)} rows and must have one; {RESTORE}")
    elif tuple(ends[0]) != (length, last):
        where = "there is no event" if number is None else f"event {number} is the last, of hash {last}"
        yield IntegrityIssue(
            "the last event",
            f"audit_head says {ends[0].events} events, the last of hash {ends[0].hash}; there are {length}, "
            f"and {where}: events after it were removed, or audit_head was changed; {RESTORE}",
        )


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


_TEXT = re.compile(r"(\d{1,18}):(?:sha256:)?([0-9a-f]{64})")


class KeptHead(BaseModel):
    """The head of a chain as a file keeps it; its text is `N:HASH`.

    Attributes:
        registry: the id of the registry; None where a head was given as text.
        events: how many events there are.
        hash: the hash of the last.
        time: when it was written down, by the clock there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    events: Annotated[int, Field(ge=0)]
    hash: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    time: AwareDatetime | None = None

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

    def __str__(self) -> str:
        return f"{self.events}:{self.hash}"


@dataclass(frozen=True)
class ComparedHead:
    """A head that was kept, compared with the chain.

    Attributes:
        head: the head.
        issue: what is wrong; None where the chain is still the same up to there.
    """

    head: KeptHead
    issue: IntegrityIssue | None


def keep_head(engine: Engine) -> KeptHead:
    """The head of the chain now.

    Raises:
        DatabaseError: the database does not say where its chain ends.
    """
    with reading(engine) as connection:
        events, newest = chain_end(connection)
        registry = registry_id(connection) or None
        return KeptHead(registry=registry, events=events, hash=newest, time=datetime.now(UTC))


def compare_heads(engine: Engine, heads: Sequence[KeptHead]) -> tuple[ComparedHead, ...]:
    """Compares heads that were kept with the chain."""
    with reading(engine) as connection:
        registry = registry_id(connection)
        hashes = (GENESIS, *connection.scalars(select(EventRow.hash).order_by(EventRow.id)))
    return tuple(ComparedHead(one, _issue(one, registry, hashes)) for one in heads)


def _issue(kept: KeptHead, registry: str, hashes: Sequence[str]) -> IntegrityIssue | None:
    about = f"the head of {kept.events} events"
    if kept.registry not in (None, registry):
        issue = f"it was kept of the registry {kept.registry}, and this one is {registry or 'without an id'}"
        return IntegrityIssue(about, f"{issue}; name the right one with --url")
    if kept.events >= len(hashes):
        issue = f"there are {len(hashes) - 1} now: events after them were removed; {RESTORE}"
        return IntegrityIssue(about, issue)
    if (there := hashes[kept.events]) != kept.hash:
        issue = f"the hash was {kept.hash} and is {there}: the chain was written anew; {RESTORE}"
        return IntegrityIssue(about, issue)
    return None


KEY_FACTS: Final = ("name", "sha256", "scopes", "expires", "revoked", "per_minute", "replaces")

Events = Sequence[Mapping[str, Any]]
"""Events as `registry.audit.stored_events` returns them."""


def table_issues(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """Finds the rows that are not as the last event about them tells, and those that no event tells of."""
    told, held = _told(events), _held(connection)
    for about in sorted(told.keys() | held.keys()):
        if about not in told:
            yield IntegrityIssue(about, f"no event tells of it; {RESTORE}")
        elif about not in held:
            yield IntegrityIssue(about, f"events tell of it and it is gone; {RESTORE}")
        elif differing := _differing(held[about], told[about]):
            yield IntegrityIssue(about, f"it has {differing}, as events tell it; {RESTORE}")
    yield from _aliases(connection, events)


def _differing(held: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {held[name]!r} instead of {fact!r}" for name, fact in told.items() if held[name] != fact
    )


def _told(events: Events) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for event in events:
        kind, model, details = event["kind"], event["model"], event["details"] or {}
        if kind in ("added", "imported"):
            for one in details.get("versions") or []:
                told[f"version {one['number']} of {model}"] = dict(one)
        elif kind == "withdrawn":
            for one in details.get("withdrawn") or []:
                about = f"the withdrawal of version {one['number']} of {model}"
                told[about] = {"reason": event["reason"], "time": event["time"]}
        elif kind in ("key-created", "key-rotated", "key-revoked") and details.get("id") is not None:
            known = told.setdefault(f"key {details['id']}", dict.fromkeys(KEY_FACTS))
            known |= {name: details[name] for name in KEY_FACTS if name in details}
        elif kind in ("tagged", "untagged"):
            about = _tags(model, event["versions"][0])
            change = set.union if kind == "tagged" else set.difference
            tags = change(set(told.pop(about, {"tags": ()})["tags"]), details.get("tags") or ())
            if tags:
                told[about] = {"tags": sorted(tags)}
        elif kind == "gates-changed" and (after := details.get("after")) is not None:
            about = _gates(after["model"], after["number"])
            told[about] = {"digest": after["digest"], "alias": after.get("alias", "")}
        if event["release_id"] is not None and details.get("members") is not None:
            told[f"release {event['release_id']} of {model}"] = {"members": details["members"]}
    return told


def _held(connection: Connection) -> dict[str, dict[str, Any]]:
    held: dict[str, dict[str, Any]] = {}
    for model in model_names(connection):
        for version in version_facts(connection, model):
            held[f"version {version['number']} of {model}"] = version
    for release, model in connection.execute(select(ReleaseRow.id, ReleaseRow.model)):
        held[f"release {release} of {model}"] = {"members": member_facts(connection, release)}
    for one in withdrawals(connection):
        about = f"the withdrawal of version {one.number} of {one.model}"
        held[about] = {"reason": one.reason, "time": stored_time(one.created)}
    columns = [
        type_coerce(column, String).label(column.name) if column.name in ("expires", "revoked") else column
        for column in (KeyRow.__table__.columns[name] for name in KEY_FACTS)
    ]
    for row in connection.execute(select(KeyRow.id, *columns)):
        held[f"key {row.id}"] = {name: row._mapping[name] for name in KEY_FACTS}
    for (model, number), tags in all_tags(connection).items():
        held[_tags(model, number)] = {"tags": sorted(tags)}
    sets = select(GateSetRow.model, GateSetRow.number, GateSetRow.content, GateSetRow.alias)
    for model, number, content, alias in connection.execute(sets):
        held[_gates(model, number)] = {"digest": gate_set_digest(content), "alias": alias}
    return held


def _tags(model: str, number: int) -> str:
    return f"the tags of version {number} of {model}"


def _gates(model: str, number: int) -> str:
    return f"gate set {number} {f'of {model}' if model else 'for all models'}"


def _aliases(connection: Connection, events: Events) -> Iterator[IntegrityIssue]:
    """The aliases that point elsewhere than their history ends, or to what was withdrawn."""
    query = select(AliasRow.model, AliasRow.alias, AliasRow.release_id, ReleaseRow.model).join(
        ReleaseRow, ReleaseRow.id == AliasRow.release_id
    )
    held = {(model, alias): (release, of) for model, alias, release, of in connection.execute(query)}
    moves: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for event in events:
        if event["alias"] is not None and event["kind"] in MOVES:
            moves.setdefault((event["model"], event["alias"]), []).append(
                (event["kind"], event["release_id"])
            )
    for model, alias in sorted(held.keys() | moves.keys()):
        about = f"alias {alias} of {model}"
        stack = stack_of(moves.get((model, alias), []))
        end = stack[-1] if stack else None
        release, of_model = held.get((model, alias), (None, model))
        if of_model != model:
            yield IntegrityIssue(about, f"it points to a release of {of_model}; promote anew")
        if release is None and end is not None:
            yield IntegrityIssue(about, "history tells of it and it is gone; promote anew")
        elif release != end:
            ends = "a stop" if stack else "none"
            yield IntegrityIssue(
                about, f"it points to release {release}, and history ends at {end or ends}; promote anew"
            )
        if release is not None and (numbers := withdrawn_members(connection, model).get(release)):
            yield IntegrityIssue(
                about,
                f"it points to release {release}, which holds version {', '.join(map(str, numbers))}, "
                f"withdrawn; no service serves it. {RESTORE.capitalize()}, or promote anew",
            )


def find_integrity_issues(
    engine: Engine, store: Store, trust: "Trust | None" = None
) -> tuple[IntegrityIssue, ...]:
    """Finds every integrity issue of the database, and of the objects that its versions and imports need.

    With `trust`, a signature of a key that is not trusted is an issue too.
    """
    with reading(engine) as connection:
        found = [IntegrityIssue("the database", text) for text in integrity_failures(connection)]
        found += [IntegrityIssue("the schema", text) for text in schema_differences(connection)]
        if found:
            return tuple(found)  # the checks below need intact tables
        versions = select(
            VersionRow.model,
            VersionRow.number,
            VersionRow.subgroup,
            VersionRow.digest,
            VersionRow.model_digest,
        ).order_by(VersionRow.model, VersionRow.number)
        objects = [
            (
                f"{file} of version {number} of {model} ({subgroup})",
                digest,
                "add the bundle again with `dermfed-registry add BUNDLE_DIR`",
            )
            for model, number, subgroup, *digests in connection.execute(versions)
            for file, digest in zip((MANIFEST_FILE, MODEL_FILE), digests, strict=True)
        ]
        events = list(stored_events(connection))
        found += [*chain_issues(connection, events), *_event_issues(connection, events)]
        try:
            require_not_lost(connection, store)
        except StoreError as error:  # once, and not once for each object
            return (*found, IntegrityIssue("the store", str(error)))
        found += [IntegrityIssue(*one) for one in signature_issues(connection, store, trust)]
    return (*found, *_damaged_objects([*objects, *_import_indexes(events)], store))


def _event_issues(connection: Connection, events: Events) -> Sequence[IntegrityIssue]:
    """The rows of tables that are not as the events say."""
    try:
        return [*table_issues(connection, events), *person_issues(connection, events)]
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # `details` may be any JSON
        return [
            IntegrityIssue(
                "the events",
                f"the details of one of them are not in the form that dermfed writes ({error!r}); find out "
                "who changed the database, and restore a copy of it",
            )
        ]


def _import_indexes(events: Events) -> Iterator[tuple[str, str, str]]:
    """The archive index of each import, which the store keeps."""
    for event in events:
        details = event["details"] if isinstance(event["details"], dict) else {}
        origin = details.get("origin")
        digest = origin.get("list") if isinstance(origin, dict) else None
        if event["kind"] == "imported" and isinstance(digest, str):
            about = f"{INDEX_FILE} of the import of event {event['id']}"
            yield about, digest, "import the file again with `dermfed-registry import FILE`"


def _damaged_objects(objects: Iterable[tuple[str, str, str]], store: Store) -> Iterator[IntegrityIssue]:
    """The issues of objects, each given by what it is, its digest and what to do."""
    seen: dict[str, str] = {}
    for about, digest, advice in objects:
        if digest not in seen:
            try:
                state = store.check(digest)
            except StoreError as error:
                seen[digest] = str(error)
            else:
                damage = f"object {digest} is {state} in {store.location}"
                seen[digest] = "" if state == "intact" else damage
        if seen[digest]:
            yield IntegrityIssue(about, f"{seen[digest]}; {advice}")
