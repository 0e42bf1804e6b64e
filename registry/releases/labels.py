"""Tags and notes of versions, withdrawn versions, and finding versions.

A tag is a short name that many versions may have; a note is a text that stays. Neither changes what answers.

Withdrawn versions are refused, and versions that share the model file of one are reported.

The bundle decides: withdrawn is a version, by the digest of its bundle. The same `model.onnx` under another
manifest may be the mend, where thresholds or a calibration were at fault, or the same harm again; only a
person can decide. So it is never promoted in silence: that takes a reason, which history keeps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, Engine, delete, insert, select

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import model_digests, version_id, versions_by_number, withdrawals
from registry.database.tables import EventRow, TagRow, VersionRow
from registry.errors import InvalidName, VersionWithdrawn
from registry.names import check_name, not_found
from registry.records import Event, Version, Withdrawal


def refuse_withdrawn(connection: Connection, versions: Sequence[Version]) -> None:
    """Refuses versions of which any was withdrawn.

    Raises:
        VersionWithdrawn: one was; the text says why.
    """
    found = {(one.model, one.digest): one for one in withdrawals(connection)} if versions else {}
    for version in versions:
        if (withdrawal := found.get((version.model, version.digest))) is not None:
            raise withdrawn_error(withdrawal)


def withdrawn_error(withdrawal: Withdrawal) -> VersionWithdrawn:
    """The error for a version that was withdrawn."""
    return VersionWithdrawn(
        f"version {withdrawal.number} of {withdrawal.model} ({withdrawal.digest}) is {withdrawal}. There is "
        "no way back: add another version"
    )


def shared_files(connection: Connection, versions: Sequence[Version]) -> tuple[str, ...]:
    """What to know of these versions of one model: which have the `model.onnx` of a withdrawn one."""
    digests = model_digests(connection, versions)
    withdrawn = withdrawals(connection)
    return tuple(
        f"version {version.number} of {version.model} has the same model.onnx as version {one.number} of "
        f"{one.model}, which is {one}"
        for version in versions
        for one in withdrawn
        if one.model_digest == digests.get(version.number)
        and (one.model, one.digest) != (version.model, version.digest)
    )


LONGEST_NOTE: Final = 10_000
"""Characters of a note at most."""


@dataclass(frozen=True)
class Note:
    """A note on a version.

    Attributes:
        model, number: of which version.
        text: what it says.
        actor: who wrote it.
        time: when.
    """

    model: str
    number: int
    text: str
    actor: str
    time: datetime


@dataclass(frozen=True)
class Hit:
    """A version that was found.

    Attributes:
        model, number, subgroup, digest: the version.
        because: what of it holds the text, such as `tag: reviewed`.
    """

    model: str
    number: int
    subgroup: str
    digest: str
    because: tuple[str, ...]


def tag_version(
    engine: Engine, model: str, number: int, tags: Sequence[str], context: AuditContext
) -> Event | None:
    """Gives a version tags; returns None where it has all of them.

    Raises:
        NotFound: there is no such model or version.
        InvalidName: a tag cannot be one, or there is none.
    """
    with writing(engine) as connection:
        id_, held = _tagged(connection, model, number)
        if not (new := [tag for tag in _checked(tags) if tag not in held]):
            return None
        connection.execute(insert(TagRow), [{"version_id": id_, "tag": tag} for tag in new])
        return insert_event(connection, "tagged", model, context, versions=[number], details={"tags": new})


def untag_version(
    engine: Engine, model: str, number: int, tags: Sequence[str], context: AuditContext
) -> Event:
    """Takes tags away from a version.

    Raises:
        NotFound: there is no such model or version, or it has no such tag.
        InvalidName: no tag is named.
    """
    with writing(engine) as connection:
        (id_, held), gone = _tagged(connection, model, number), _checked(tags)
        for tag in gone:
            if tag not in held:
                raise not_found("tag", tag, held, of=f" of version {number} of {model}")
        connection.execute(delete(TagRow).where(TagRow.version_id == id_, TagRow.tag.in_(gone)))
        return insert_event(connection, "untagged", model, context, versions=[number], details={"tags": gone})


def _tagged(connection: Connection, model: str, number: int) -> tuple[int, list[str]]:
    """The id of the row of a version, and its tags."""
    versions_by_number(connection, model, [number])
    id_ = version_id(connection, model, number)
    return id_, list(connection.scalars(select(TagRow.tag).where(TagRow.version_id == id_)))


def note_version(engine: Engine, model: str, number: int, text: str, context: AuditContext) -> Event:
    """Writes a note on a version, which history keeps.

    Raises:
        NotFound: there is no such model or version.
        InvalidName: the note is empty or too long.
    """
    said = text.encode("utf-8", "replace").decode().strip()
    if not said or len(said) > LONGEST_NOTE:
        raise InvalidName(f"a note has 1 to {LONGEST_NOTE:,} characters; this one has {len(said):,}")
    with writing(engine) as connection:
        versions_by_number(connection, model, [number])
        return insert_event(connection, "noted", model, context, versions=[number], details={"note": said})


def all_tags(connection: Connection, model: str | None = None) -> dict[tuple[str, int], tuple[str, ...]]:
    """The tags of each version that has any, by model and number."""
    query = select(VersionRow.model, VersionRow.number, TagRow.tag).join(
        TagRow, TagRow.version_id == VersionRow.id
    )
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for name, number, tag in connection.execute(query.order_by(TagRow.tag)):
        if model is None or model == name:  # the database would look through all versions of a model
            found[name, number] = (*found.get((name, number), ()), tag)
    return found


def all_notes(connection: Connection, model: str | None = None) -> tuple[Note, ...]:
    """Every note on the versions of a model or of all, the oldest first."""
    query = select(EventRow.model, EventRow.versions, EventRow.details, EventRow.actor, EventRow.time)
    query = query.where(EventRow.kind == "noted").order_by(EventRow.id)
    if model is not None:
        query = query.where(EventRow.model == model)
    return tuple(
        Note(row.model, row.versions[0], row.details["note"], row.actor, row.time)
        for row in connection.execute(query)
    )


def find_versions(engine: Engine, text: str) -> tuple[Hit, ...]:
    """The versions of which anything in `SEARCHED` holds the text, in any case; of digests, the beginning.

    Raises:
        InvalidName: there is no text.
    """
    wanted = text.strip().casefold()
    if not wanted:
        raise InvalidName("there is nothing to find; give a part of a name, a tag, a note or a digest")
    prefix = wanted if wanted.startswith("sha256:") else f"sha256:{wanted}"
    with reading(engine) as connection:
        said: dict[tuple[str, int], list[str]] = {}
        for key, kind, words in _said(connection):
            if wanted in words.casefold():
                said.setdefault(key, []).append(f"{kind}: {words}")
        columns = (VersionRow.model, VersionRow.number, VersionRow.subgroup, VersionRow.digest)
        query = select(*columns, VersionRow.model_digest).order_by(VersionRow.model, VersionRow.number)
        rows = connection.execute(query).all()
    found = []
    for model, number, subgroup, digest, model_digest in rows:
        names = {"model": model, "subgroup": subgroup}
        digests = {"digest": digest, "digest of model.onnx": model_digest}
        because = [f"{kind}: {name}" for kind, name in names.items() if wanted in name.casefold()]
        because += [f"{kind}: {one}" for kind, one in digests.items() if one.startswith(prefix)]
        if because := [*because, *said.get((model, number), ())]:
            found.append(Hit(model, number, subgroup, digest, tuple(because)))
    return tuple(found)


def _said(connection: Connection) -> Iterator[tuple[tuple[str, int], str, str]]:
    """What is said of versions: of which, what kind of words, and the words."""
    for key, tags in all_tags(connection).items():
        yield from ((key, "tag", tag) for tag in tags)
    for note in all_notes(connection):
        yield (note.model, note.number), "note", note.text
    for one in withdrawals(connection):
        yield (one.model, one.number), "withdrawal", one.reason


def _checked(tags: Sequence[str]) -> list[str]:
    if not tags:
        raise InvalidName("no tag is named; name at least one, such as reviewed")
    return [check_name("tag", tag) for tag in dict.fromkeys(tags)]
