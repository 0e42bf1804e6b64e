"""From a file into a registry: everything is checked before anything is kept.

A digest shows that nothing was altered on the way, not who wrote the file: for that there are signatures,
or the digest of `release.json`, which both sides are told and can compare by another way.

Signatures are kept only if they are valid and of a key that is trusted here, since what the file says of
who signed is only a claim, and gates go by who signed. They count as made when they are imported: a file
could claim any earlier moment, before its certificate ran out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine

from registry.archive.container import Container, open_container
from registry.archive.index import (
    INDEX_FILE,
    PackedSignature,
    PackedVersion,
    ReleaseIndex,
    manifest_file,
    model_file,
    read_index,
    signature_file,
)
from registry.bundle.errors import BundleError
from registry.bundle.folder import Bundle
from registry.bundle.manifest_text import read_manifest
from registry.bundle.schema import ModelFile, sha256
from registry.changes import Note, insert_event, insert_version
from registry.collecting.garbage import keep
from registry.database import writing
from registry.errors import ArchiveRefused
from registry.intake import check_bundle, check_size
from registry.queries import events_of
from registry.records import Event, Version
from registry.signing.rows import Signature, insert_signatures, signatures_of_version
from registry.signing.statement import bundle_files
from registry.store import Store

if TYPE_CHECKING:
    from registry.signing.pem import Trust


@dataclass(frozen=True)
class Arrival:
    """A release that was read from a file and checked against itself.

    Attributes:
        index: what the file says of itself.
        text: the bytes of `release.json`.
        bundles: the bundle of each version, in the order of `index.versions`.
        signatures: the bytes of each signature, by digest.
    """

    index: ReleaseIndex
    text: bytes
    bundles: tuple[Bundle, ...]
    signatures: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Of `release.json`, which names the digest of everything else."""
        return sha256(self.text)


@dataclass(frozen=True)
class Imported:
    """What came of importing a release.

    Attributes:
        digest: of the file's `release.json`; its text is an object of the store.
        versions: the version of each bundle, here.
        new: those that were not there before.
        signatures: the signatures that were kept.
        left_out: each signature that was not, with why.
        event: what history says of it; None where all of it was imported before.
        promoted: what came of promoting it, where that was asked.
    """

    digest: str
    versions: tuple[Version, ...]
    new: tuple[Version, ...]
    signatures: tuple[Signature, ...]
    left_out: tuple[str, ...]
    event: Event | None
    promoted: tuple[Event, ...] = ()


def read_release(path: Path) -> Arrival:
    """The release in a file.

    Raises:
        ArchiveError: the file cannot be read.
        ArchiveRefused: it is not a release as it was exported.
        BundleError: a `bundle.json` does not say what it must, or a newer dermfed wrote it.
        BundleRefused: a model is larger than allowed; it is not read then.
    """
    with open_container(path) as container:
        text = container.read(INDEX_FILE)
        index = read_index(text)
        if {**index.files, INDEX_FILE: len(text)} != dict(container.sizes):
            raise ArchiveRefused(
                f"{path} does not hold the files that its {INDEX_FILE} names, in their sizes; take the file "
                "that `export` wrote, as it is"
            )
        models: dict[str, bytes] = {}
        bundles = tuple(_bundle(container, index, version, models) for version in index.versions)
        signatures = {
            one.object: _read(container, signature_file(one.object), one.object)
            for version in index.versions
            for one in version.signatures
        }
    return Arrival(index, text, bundles, signatures)


def take_in(engine: Engine, store: Store, actor: str, arrival: Arrival, trust: "Trust | None") -> Imported:
    """Keeps the versions and signatures of a release; the same again changes nothing.

    Raises:
        InvalidName: the model has a name that the registry cannot take.
        BundleRefused: a bundle could not answer.
        ArchiveRefused: a signature is forged.
        StoreError: the store cannot be written.
    """
    contents = [arrival.text]
    for bundle in arrival.bundles:
        contents += [check_bundle(bundle), bundle.model]
    now = datetime.now(UTC)
    taken, left_out = _judged(arrival, trust, now)
    contents += [arrival.signatures[one.object] for _, one in taken]
    for content in contents:
        store.put(content)
    with writing(engine) as connection:
        keep(store, contents)
        inserted = [insert_version(connection, bundle) for bundle in arrival.bundles]
        versions = tuple(version for version, _ in inserted)
        new = tuple(version for version, is_new in inserted if is_new)
        here = {version.digest: version for version in versions}
        signatures = tuple(
            Signature(version.model, version.number, one.object, one.identity, now)
            for digest, one in taken
            if one.object not in _signed(connection, version := here[digest])
        )
        insert_signatures(connection, signatures)
        event = None
        if new or signatures or not _was_imported(connection, arrival):
            event = insert_event(
                connection,
                "imported",
                arrival.index.model,
                Note(actor),
                versions=[version.number for version in new],
                details=_details(arrival, signatures),
            )
    return Imported(arrival.digest, versions, new, signatures, left_out, event)


def _bundle(
    container: Container, index: ReleaseIndex, version: PackedVersion, models: dict[str, bytes]
) -> Bundle:
    """The bundle of a version; `models` holds the models that others have read."""
    text = _read(container, manifest_file(version.digest), version.digest)
    try:
        manifest = read_manifest(text)
    except BundleError as error:
        raise type(error)(f"version {version.number} of {index.model}: {error}") from error
    told = (index.model, version.subgroup, ModelFile(sha256=version.model_digest, size=version.model_size))
    if (found := (manifest.model, manifest.subgroup.name, manifest.file)) != told:
        raise ArchiveRefused(
            f"{INDEX_FILE} says of version {version.number}: {_shown(*told)}; its bundle.json says "
            f"{_shown(*found)}. Export the release again"
        )
    check_size(f"the model of version {version.number} in {INDEX_FILE}", version.model_size)
    if version.model_digest not in models:
        models[version.model_digest] = _read(
            container, model_file(version.model_digest), version.model_digest
        )
    return Bundle(manifest, models[version.model_digest], version.digest)


def _shown(model: str, subgroup: str, file: ModelFile) -> str:
    return f"{model} for {subgroup}, a model of {file.size:,} bytes with {file.sha256}"


def _read(container: Container, name: str, digest: str) -> bytes:
    content = container.read(name)
    if (actual := sha256(content)) != digest:
        raise ArchiveRefused(f"{name} was altered: its bytes have {actual}; fetch the file again")
    return content


def _judged(
    arrival: Arrival, trust: "Trust | None", now: datetime
) -> tuple[list[tuple[str, PackedSignature]], tuple[str, ...]]:
    """The signatures to keep, each with the digest of its bundle, and why the others are left out."""
    taken: list[tuple[str, PackedSignature]] = []
    left_out = []
    for version in arrival.index.versions:
        for one in version.signatures:
            about = f"signature {one.object} of version {version.number}"
            if trust is None:
                left_out.append(f"{about}: nobody is trusted; import again with --trust FILE")
                continue
            from registry.signing.check import check  # it needs the extra `sign`, as `trust` does

            files = bundle_files(version.digest, version.model_digest)
            checked = check(arrival.signatures[one.object], files, trust, now)
            if checked.verdict == "forged" or (
                checked.verdict == "valid" and one.identity not in checked.names
            ):
                raise ArchiveRefused(
                    f"{about} claims to be of {one.identity} and is forged "
                    f"({checked.why or f'it is of {checked.identity}'}); ask who gave you the file"
                )
            if checked.verdict == "valid":
                taken.append((version.digest, one))
            else:
                left_out.append(f"{about}: {checked.why}")
    return taken, tuple(left_out)


def _signed(connection: Connection, version: Version) -> set[str]:
    return {one.object for one in signatures_of_version(connection, version)}


def _was_imported(connection: Connection, arrival: Arrival) -> bool:
    told = (one.details or {} for one in events_of(connection, arrival.index.model) if one.kind == "imported")
    return any(details.get("origin", {}).get("list") == arrival.digest for details in told)


def _details(arrival: Arrival, signatures: tuple[Signature, ...]) -> dict[str, Any]:
    """Where the release came from; `list` is the digest of `release.json`, which the store keeps."""
    index = arrival.index
    promotion = index.promotion
    assert promotion is not None  # reading the index has looked
    return {
        "origin": {
            "list": arrival.digest,
            "alias": index.alias,
            "release": index.release,
            "event": promotion.hash,
            "time": promotion.time,
            "actor": promotion.actor,
            "host": promotion.host,
            "versions": [{"number": one.number, "digest": one.digest} for one in index.versions],
        },
        "signatures": [
            {"number": one.number, "object": one.object, "identity": one.identity} for one in signatures
        ],
    }
