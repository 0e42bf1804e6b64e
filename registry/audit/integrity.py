"""All integrity checks of a registry: schema, hash chain, tables, signatures and stored objects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, select

from registry.audit.log import chain_issues, readable, stored_events
from registry.audit.tables import table_issues
from registry.bundle.errors import BundleError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE
from registry.bundle.manifest.schema import GLOBAL
from registry.bundle.manifest.text import read_manifest
from registry.database.connection import integrity_failures, reading
from registry.database.migrate import schema_differences
from registry.database.tables import MemberRow, ReleaseRow, VersionRow
from registry.errors import StoreError
from registry.names import INDEX_FILE
from registry.people.history import person_issues
from registry.records import IntegrityIssue
from registry.signing.versions import signature_issues
from registry.store.base import Store
from registry.store.references import require_not_lost

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Trust


@dataclass(frozen=True)
class _VersionFacts:
    """The database row of one version."""

    model: str
    number: int
    subgroup: str
    digest: str
    model_digest: str

    def __str__(self) -> str:
        return f"version {self.number} of {self.model} ({self.subgroup})"


def find_integrity_issues(
    engine: Engine, store: Store, trust: "Trust | None" = None
) -> tuple[IntegrityIssue, ...]:
    """Finds every integrity issue of the database, and of the objects that its versions need.

    With `trust`, a signature of nobody who is trusted is an issue too.
    """
    with reading(engine) as connection:
        found = [IntegrityIssue("the database", text) for text in integrity_failures(connection)]
        found += [IntegrityIssue("the schema", text) for text in schema_differences(connection)]
        if found:
            return tuple(found)  # the checks below need intact tables
        versions = [
            _VersionFacts(*row)
            for row in connection.execute(
                select(
                    VersionRow.model,
                    VersionRow.number,
                    VersionRow.subgroup,
                    VersionRow.digest,
                    VersionRow.model_digest,
                ).order_by(VersionRow.model, VersionRow.number)
            )
        ]
        events = list(stored_events(connection))
        found += chain_issues(connection, events)
        found += [*_missing_numbers(versions), *_broken_releases(connection)]
        if readable(events):
            found += _told_issues(connection, events, store)
        if (elsewhere := _store_issue(connection, store)) is not None:
            return (*found, elsewhere)  # once, and not once for each object
        found += [IntegrityIssue(*one) for one in signature_issues(connection, store, trust)]
    return (*found, *_damaged_objects(versions, store))


def _store_issue(connection: Connection, store: Store) -> IntegrityIssue | None:
    """A store that is lost or lies elsewhere; None where it holds objects."""
    try:
        require_not_lost(connection, store)
    except StoreError as error:
        return IntegrityIssue("the store", str(error))
    return None


def _missing_numbers(versions: Sequence[_VersionFacts]) -> Iterator[IntegrityIssue]:
    for model in dict.fromkeys(version.model for version in versions):
        numbers = [version.number for version in versions if version.model == model]
        if gone := sorted(set(range(1, max(numbers) + 1)) - set(numbers)):
            yield IntegrityIssue(
                f"model {model}",
                f"version {', '.join(map(str, gone))} is gone from the database; restore a copy of it",
            )


def _broken_releases(connection: Connection) -> Iterator[IntegrityIssue]:
    releases = {row.id: row.model for row in connection.execute(select(ReleaseRow.id, ReleaseRow.model))}
    members: dict[int, list[str]] = {number: [] for number in releases}
    query = select(MemberRow.release_id, MemberRow.subgroup, VersionRow.model, VersionRow.subgroup).join(
        VersionRow, VersionRow.id == MemberRow.version_id
    )
    for release, subgroup, model, of_version in connection.execute(query):
        members[release].append(subgroup)
        if model != releases[release] or subgroup != of_version:
            yield IntegrityIssue(
                f"release {release} of {releases[release]}",
                f"for {subgroup} it holds a version of {model} for {of_version}; promote anew",
            )
    for release, subgroups in members.items():
        if GLOBAL not in subgroups:
            yield IntegrityIssue(
                f"release {release} of {releases[release]}",
                "it has no version for everybody; promote a global version anew",
            )


def _told_issues(
    connection: Connection, events: Sequence[Mapping[str, Any]], store: Store
) -> Sequence[IntegrityIssue]:
    """Where tables and store are not as the events tell."""
    try:
        return [
            *table_issues(connection, events),
            *person_issues(connection, events),
            *_lost_import_indexes(events, store),
        ]
    except (
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # `details` can be changed into any JSON
        return [
            IntegrityIssue(
                "the events",
                f"what one of them tells is not in the form that dermfed writes ({error!r}); find out who "
                "changed the database, and restore a copy of it",
            )
        ]


def _lost_import_indexes(events: Sequence[Mapping[str, Any]], store: Store) -> Iterator[IntegrityIssue]:
    """The archive indexes of imports that the store has lost."""
    seen = set()
    for event in events:
        digest = ((event["details"] or {}).get("origin") or {}).get("list")
        if event["kind"] != "imported" or digest is None or digest in seen:
            continue
        seen.add(digest)
        if (issue := _object_issue(store, digest)) is not None:
            if store.is_empty():
                return  # it is told once that the whole store is lost
            yield IntegrityIssue(
                f"{INDEX_FILE} of the import of event {event['id']}",
                f"{issue}; import the file again with `dermfed-registry import FILE`",
            )


def _damaged_objects(versions: Sequence[_VersionFacts], store: Store) -> Iterator[IntegrityIssue]:
    seen: dict[str, str | None] = {}
    for version in versions:
        for file, digest in ((MANIFEST_FILE, version.digest), (MODEL_FILE, version.model_digest)):
            if digest not in seen:
                seen[digest] = _object_issue(store, digest)
            if (issue := seen[digest]) is not None:
                yield IntegrityIssue(
                    f"{file} of {version}",
                    f"{issue}; add the bundle again with `dermfed-registry add BUNDLE_DIR`",
                )
        if seen[version.digest] is None:
            yield from _manifest_mismatches(version, store)


def _object_issue(store: Store, digest: str) -> str | None:
    try:
        state = store.check(digest)
    except StoreError as error:
        return str(error)
    return None if state == "intact" else f"object {digest} is {state} in {store.location}"


def _manifest_mismatches(version: _VersionFacts, store: Store) -> Iterator[IntegrityIssue]:
    try:
        manifest = read_manifest(store.get(version.digest))
    except (BundleError, StoreError) as error:
        yield IntegrityIssue(f"{MANIFEST_FILE} of {version}", str(error))
        return
    stated = (manifest.model, manifest.subgroup.name, manifest.file.sha256)
    if stated != (version.model, version.subgroup, version.model_digest):
        yield IntegrityIssue(
            str(version),
            f"the database says {version.model}, {version.subgroup}, {version.model_digest}, and its "
            f"{MANIFEST_FILE} says {stated[0]}, {stated[1]}, {stated[2]}; restore a copy of the database",
        )
