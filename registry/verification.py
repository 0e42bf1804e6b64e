"""Everything that can be found wrong with a registry without knowing what it should hold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, select

from registry.agreement import disagreements
from registry.archive.index import INDEX_FILE
from registry.audit import chain_problems, readable, stored_events
from registry.bundle.errors import BundleError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE
from registry.bundle.manifest_text import read_manifest
from registry.bundle.schema import GLOBAL
from registry.database import damages, guards, reading
from registry.errors import StoreError
from registry.migrate import schema_differences
from registry.records import Problem
from registry.signing.versions import signature_problems
from registry.store import Store
from registry.tables import GUARDED, MemberRow, ReleaseRow, VersionRow

if TYPE_CHECKING:
    from registry.signing.pem import Trust


@dataclass(frozen=True)
class _Held:
    """What the database says of one version."""

    model: str
    number: int
    subgroup: str
    digest: str
    model_digest: str

    def __str__(self) -> str:
        return f"version {self.number} of {self.model} ({self.subgroup})"


def find_problems(engine: Engine, store: Store, trust: "Trust | None" = None) -> tuple[Problem, ...]:
    """All that is wrong with the database, and with the objects that its versions need.

    With `trust`, a signature that is of nobody who is trusted is wrong too.
    """
    with reading(engine) as connection:
        found = [Problem("the database", text) for text in damages(connection)]
        found += [Problem("the schema", text) for text in schema_differences(connection)]
        if found:
            return tuple(found)  # what follows reads tables that are as they should be
        held = [
            _Held(*row)
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
        found += [*_guards(connection), *chain_problems(connection, events)]
        found += [*_numbers(held), *_releases(connection)]
        if readable(events):
            found += _told(connection, events, store)
        found += [Problem(*one) for one in signature_problems(connection, store, trust)]
    return (*found, *_objects(held, store))


def _numbers(held: Sequence[_Held]) -> Iterator[Problem]:
    for model in dict.fromkeys(version.model for version in held):
        numbers = [version.number for version in held if version.model == model]
        if gone := sorted(set(range(1, max(numbers) + 1)) - set(numbers)):
            yield Problem(
                f"model {model}",
                f"version {', '.join(map(str, gone))} is gone from the database; restore a copy of it",
            )


def _releases(connection: Connection) -> Iterator[Problem]:
    releases = {row.id: row.model for row in connection.execute(select(ReleaseRow.id, ReleaseRow.model))}
    members: dict[int, list[str]] = {number: [] for number in releases}
    query = select(MemberRow.release_id, MemberRow.subgroup, VersionRow.model, VersionRow.subgroup).join(
        VersionRow, VersionRow.id == MemberRow.version_id
    )
    for release, subgroup, model, of_version in connection.execute(query):
        members[release].append(subgroup)
        if model != releases[release] or subgroup != of_version:
            yield Problem(
                f"release {release} of {releases[release]}",
                f"for {subgroup} it holds a version of {model} for {of_version}; promote anew",
            )
    for release, subgroups in members.items():
        if GLOBAL not in subgroups:
            yield Problem(
                f"release {release} of {releases[release]}",
                "it has no version for everybody; promote a global version anew",
            )


def _guards(connection: Connection) -> Iterator[Problem]:
    there = guards(connection)
    for table in GUARDED:
        for action in ("update", "delete"):
            if f"guard_{table}_{action}" not in there:
                yield Problem(
                    f"table {table}",
                    f"its guard against {action.upper()} is gone; find out who removed it, and restore a "
                    "copy of the database",
                )


def _told(connection: Connection, events: Sequence[Mapping[str, Any]], store: Store) -> Sequence[Problem]:
    """Where tables and store are not as the events tell."""
    try:
        return [*disagreements(connection, events), *_imports(events, store)]
    except (AttributeError, KeyError, TypeError) as error:  # `details` can be changed into any JSON
        return [
            Problem(
                "the events",
                f"what one of them tells is not in the form that dermfed writes ({error!r}); find out who "
                "changed the database, and restore a copy of it",
            )
        ]


def _imports(events: Sequence[Mapping[str, Any]], store: Store) -> Iterator[Problem]:
    """Where the store has lost what an import brought with it beside bundles and signatures."""
    seen = set()
    for event in events:
        digest = ((event["details"] or {}).get("origin") or {}).get("list")
        if event["kind"] != "imported" or digest is None or digest in seen:
            continue
        seen.add(digest)
        if (trouble := _trouble(store, digest)) is not None:
            yield Problem(
                f"{INDEX_FILE} of the import of event {event['id']}",
                f"{trouble}; import the file again with `dermfed-registry import FILE`",
            )


def _objects(held: Sequence[_Held], store: Store) -> Iterator[Problem]:
    seen: dict[str, str | None] = {}
    for version in held:
        for file, digest in ((MANIFEST_FILE, version.digest), (MODEL_FILE, version.model_digest)):
            if digest not in seen:
                seen[digest] = _trouble(store, digest)
            if (trouble := seen[digest]) is not None:
                yield Problem(
                    f"{file} of {version}",
                    f"{trouble}; add the bundle again with `dermfed-registry add BUNDLE_DIR`",
                )
        if seen[version.digest] is None:
            yield from _disagreements(version, store)


def _trouble(store: Store, digest: str) -> str | None:
    try:
        state = store.check(digest)
    except StoreError as error:
        return str(error)
    return None if state == "intact" else f"object {digest} is {state} in {store.place}"


def _disagreements(version: _Held, store: Store) -> Iterator[Problem]:
    try:
        manifest = read_manifest(store.get(version.digest))
    except (BundleError, StoreError) as error:
        yield Problem(f"{MANIFEST_FILE} of {version}", str(error))
        return
    told = (manifest.model, manifest.subgroup.name, manifest.file.sha256)
    if told != (version.model, version.subgroup, version.model_digest):
        yield Problem(
            str(version),
            f"the database says {version.model}, {version.subgroup}, {version.model_digest}, and its "
            f"{MANIFEST_FILE} says {told[0]}, {told[1]}, {told[2]}; restore a copy of the database",
        )
