"""Exports a release into one file: its bundles, its signatures, and the events that made it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Engine

from registry.archive import (
    EXPORTED,
    ExportedEvent,
    PackedSignature,
    PackedVersion,
    ReleaseIndex,
    check_events,
    exported_event,
    write_container,
)
from registry.audit import stored_events
from registry.bundle.manifest import sha256
from registry.database.connection import reading
from registry.database.tables import registry_id
from registry.environment import own_version
from registry.errors import ArchiveError, ArchiveRefused
from registry.names import INDEX_FILE
from registry.records import Release
from registry.releases.labels import refuse_withdrawn
from registry.releases.rollback import required_release
from registry.signed_versions import Signature, signatures_of_version
from registry.store import Store
from registry.stored_bundles import stored_manifest


@dataclass(frozen=True)
class Exported:
    """An exported release.

    Attributes:
        path: the file.
        bytes: its size.
        digest: of its `release.json`, which names the digest of everything else in it.
        model, alias, release: what was exported.
        versions: the numbers of its versions.
    """

    path: Path
    bytes: int
    digest: str
    model: str
    alias: str
    release: int
    versions: tuple[int, ...]


def export_release(
    engine: Engine, store: Store, model: str, alias: str, path: Path, *, with_reasons: bool = False
) -> Exported:
    """Exports the release that an alias points to into a file; the same release gives the same bytes.

    Of events it tells neither who nor where, and why only `with_reasons`.

    Raises:
        NotFound: there is no such model or alias, or it was stopped.
        VersionWithdrawn: the release holds a version that was withdrawn.
        ArchiveError: the file cannot be written, or the events do not agree with the release.
        StoreError: a file of a version, or a signature, is missing or was altered.
    """
    with reading(engine) as connection:
        release = required_release(connection, model, alias)
        refuse_withdrawn(connection, release.versions)
        stored = list(stored_events(connection, model))
        origin = registry_id(connection)
        signed = {one.number: signatures_of_version(connection, one) for one in release.versions}
    try:
        about = [
            exported_event(one, with_reasons=with_reasons) for one in stored if _concerns(one, release, alias)
        ]
        index = _index(store, origin, release, alias, about, signed)
        check_events(index)
    except (ArchiveRefused, ValidationError) as error:
        raise ArchiveError(
            f"{alias} of {model} cannot be exported, since history does not tell of it as it is ({error}); "
            "run `dermfed-registry verify`"
        ) from error
    text = index.text()
    size = write_container(path, _files(store, index, text))
    numbers = tuple(one.number for one in index.versions)
    return Exported(path, size, sha256(text), model, alias, release.id, numbers)


def _index(
    store: Store,
    origin: str,
    release: Release,
    alias: str,
    events: Sequence[ExportedEvent],
    signed: dict[int, tuple[Signature, ...]],
) -> ReleaseIndex:
    versions = []
    for version in sorted(release.versions, key=lambda one: one.number):
        file = stored_manifest(store, version).file
        versions.append(
            PackedVersion(
                number=version.number,
                digest=version.digest,
                size=len(store.get(version.digest)),
                model_digest=file.sha256,
                model_size=file.size,
                subgroup=version.subgroup.name,
                signatures=tuple(
                    PackedSignature(
                        object=one.object,
                        size=len(store.get(one.object)),
                        identity=one.identity,
                        created=one.created,
                    )
                    for one in signed[version.number]
                ),
            )
        )
    promoted = (one for one in events if one.kind == "promoted" and one.release_id == release.id)
    return ReleaseIndex(
        registry=origin,
        code_version=own_version(),
        model=release.model,
        alias=alias,
        release=release.id,
        versions=tuple(versions),
        gates=next((one.gates for one in promoted), None),
        events=tuple(events),
    )


def _files(store: Store, index: ReleaseIndex, text: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of the archive with their bytes, one in memory at a time; `release.json` first."""
    yield INDEX_FILE, text
    for name, (digest, _) in sorted(index.files.items()):
        yield name, store.get(digest)


def _concerns(event: Mapping[str, Any], release: Release, alias: str) -> bool:
    """Whether the event is exported, and about the release, one of its versions, or its approval."""
    if event["kind"] not in EXPORTED:  # notes and tags are for those who wrote them
        return False
    if event["release_id"] is not None:
        return bool(event["release_id"] == release.id)
    if event["kind"] == "approved":
        members = (event["details"] or {}).get("members", [])
        return event["alias"] == alias and {one["digest"] for one in members} == {
            one.digest for one in release.versions
        }
    return bool({one.number for one in release.versions} & set(event["versions"]))
