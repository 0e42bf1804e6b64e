"""Imports a release from one file into a registry: everything is verified before anything is stored.

A digest shows that nothing was altered on the way, not who wrote the file: for that there are signatures,
or the digest of `release.json`, which both sides print and can compare by another way.

Signatures are kept only if they are valid and of a key that is trusted here, since what the file says of
who signed is only a claim, and gates go by who signed. They count as made when they are imported: a file
could claim any earlier moment, before its certificate ran out.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine

from registry.archive import (
    Container,
    PackedSignature,
    PackedVersion,
    ReleaseIndex,
    manifest_file,
    model_file,
    open_container,
    read_index,
    signature_file,
)
from registry.bundle.errors import BundleError
from registry.bundle.folder import Bundle
from registry.bundle.manifest import ModelFile, read_manifest, sha256
from registry.database.changes import AuditContext, insert_event, insert_version
from registry.database.connection import writing
from registry.database.queries import events_where
from registry.database.tables import EventRow
from registry.envelope import bundle_files
from registry.errors import ArchiveRefused
from registry.names import INDEX_FILE
from registry.records import Event, Version
from registry.releases.add import check_bundle, check_size, put_contents
from registry.releases.labels import refuse_withdrawn, shared_files
from registry.signed_versions import Signature, insert_signatures, signatures_of_version
from registry.store import Store
from registry.stored_bundles import restore_collected

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing_keys import Trust


@dataclass(frozen=True)
class ReadRelease:
    """A release read from an archive and verified against its own digests.

    Attributes:
        index: the archive's `release.json`.
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
        """The digest of `release.json`, which names the digest of everything else."""
        return sha256(self.text)


@dataclass(frozen=True)
class Imported:
    """The result of importing a release.

    Attributes:
        digest: of the archive's `release.json`; its text is an object of the store.
        versions: the version of each bundle, in this registry.
        new: those that were not there before.
        signatures: the signatures that were stored.
        left_out: each signature that was not, with why.
        event: the event of the import; None where all of it was imported before.
        promoted: the events of promoting it, where that was asked.
        warnings: which versions have the `model.onnx` of one that was withdrawn here.
    """

    digest: str
    versions: tuple[Version, ...]
    new: tuple[Version, ...]
    signatures: tuple[Signature, ...]
    left_out: tuple[str, ...]
    event: Event | None
    promoted: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()


def read_release(path: Path) -> ReadRelease:
    """Reads and verifies the release in an archive.

    Raises:
        ArchiveError: the file cannot be read.
        ArchiveRefused: it is not a release as it was exported.
        BundleError: a `bundle.json` does not say what it must, or is of another schema.
        BundleRefused: a model is larger than allowed; it is not read then.
    """
    with open_container(path) as container:
        text = container.read(INDEX_FILE)
        index = read_index(text)
        named = {name: size for name, (_, size) in index.files.items()}
        if {**named, INDEX_FILE: len(text)} != dict(container.sizes):
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
    return ReadRelease(index, text, bundles, signatures)


def import_release(
    engine: Engine,
    store: Store,
    context: AuditContext,
    archive: ReadRelease,
    trust: "Trust | None",
    *,
    allow_unsigned: bool = False,
) -> Imported:
    """Stores the versions and trusted signatures of a release read from an archive; again changes nothing.

    With `trust`, each version needs a valid signature by a trusted key, unless `allow_unsigned`.

    Raises:
        InvalidName: the model has a name that the registry cannot take.
        BundleRefused: a bundle could not answer.
        ArchiveRefused: a signature is forged, or a version has none of anybody trusted.
        VersionWithdrawn: a bundle was withdrawn here.
        StoreError: the store cannot be written.
    """
    contents: dict[str, bytes] = {archive.digest: archive.text}
    for bundle in archive.bundles:
        contents |= {bundle.digest: check_bundle(bundle), bundle.manifest.file.sha256: bundle.model}
    now = datetime.now(UTC)
    kept, left_out = _verified_signatures(archive, trust, now)
    if trust is not None and not allow_unsigned:
        _require_signed(archive, {digest for digest, _ in kept}, left_out)
    contents |= {one.object: archive.signatures[one.object] for _, one in kept}
    bundles = [(one.manifest.model, one.digest) for one in archive.bundles]
    put_contents(engine, store, context, contents, bundles)
    with writing(engine) as connection:
        restore_collected(store, contents)
        inserted = [insert_version(connection, one.manifest, one.digest) for one in archive.bundles]
        refuse_withdrawn(connection, [version for version, _ in inserted])
        versions = tuple(version for version, _ in inserted)
        new = tuple(version for version, is_new in inserted if is_new)
        here = {version.digest: version for version in versions}
        signatures = tuple(
            Signature(version.model, version.number, one.object, one.identity, now)
            for digest, one in kept
            if one.object not in _signed(connection, version := here[digest])
        )
        insert_signatures(connection, signatures)
        event = None
        if new or signatures or not _was_imported(connection, archive):
            event = insert_event(
                connection,
                "imported",
                archive.index.model,
                context,
                versions=[version.number for version in new],
                details=_details(archive, signatures),
            )
        warnings = shared_files(connection, versions)
    return Imported(archive.digest, versions, new, signatures, left_out, event, warnings=warnings)


def _bundle(
    container: Container, index: ReleaseIndex, version: PackedVersion, models: dict[str, bytes]
) -> Bundle:
    """Reads the bundle of a version; `models` caches models by digest, which versions may share."""
    text = _read(container, manifest_file(version.digest), version.digest)
    try:
        manifest = read_manifest(text)
    except BundleError as error:
        raise type(error)(f"version {version.number} of {index.model}: {error}") from error
    stated = (index.model, version.subgroup, ModelFile(sha256=version.model_digest, size=version.model_size))
    if (found := (manifest.model, manifest.subgroup.name, manifest.file)) != stated:
        raise ArchiveRefused(
            f"{INDEX_FILE} says of version {version.number}: {_described(*stated)}; its bundle.json says "
            f"{_described(*found)}. Export the release again"
        )
    check_size(f"the model of version {version.number} in {INDEX_FILE}", version.model_size)
    if version.model_digest not in models:
        models[version.model_digest] = _read(
            container, model_file(version.model_digest), version.model_digest
        )
    return Bundle(manifest, models[version.model_digest], version.digest)


def _described(model: str, subgroup: str, file: ModelFile) -> str:
    return f"{model} for {subgroup}, a model of {file.size:,} bytes with {file.sha256}"


def _read(container: Container, name: str, digest: str) -> bytes:
    content = container.read(name)
    if (actual := sha256(content)) != digest:
        raise ArchiveRefused(f"{name} was altered: its bytes have {actual}; fetch the file again")
    return content


def _verified_signatures(
    archive: ReadRelease, trust: "Trust | None", now: datetime
) -> tuple[list[tuple[str, PackedSignature]], tuple[str, ...]]:
    """The valid, trusted signatures, each with the digest of its bundle, and why the others are left out."""
    kept: list[tuple[str, PackedSignature]] = []
    left_out = []
    for version in archive.index.versions:
        for one in version.signatures:
            about = f"signature {one.object} of version {version.number}"
            if trust is None:
                left_out.append(f"{about}: nobody is trusted; import again with --trust FILE")
                continue
            from registry.signing_keys import check_signature  # it needs the extra `sign`, as `trust` does

            files = bundle_files(version.digest, version.model_digest)
            checked = check_signature(archive.signatures[one.object], files, trust, now)
            if checked.verdict == "forged" or (
                checked.verdict == "valid" and one.identity not in checked.names
            ):
                raise ArchiveRefused(
                    f"{about} claims to be of {one.identity} and is forged "
                    f"({checked.why or f'it is of {checked.identity}'}); ask who gave you the file"
                )
            if checked.verdict == "valid":
                kept.append((version.digest, one))
            else:
                left_out.append(f"{about}: {checked.why}")
    return kept, tuple(left_out)


def _require_signed(archive: ReadRelease, signed: Set[str], left_out: tuple[str, ...]) -> None:
    """Checks that every version has a signature that is kept.

    Args:
        archive: the release.
        signed: the digests of the bundles that have one.
        left_out: why other signatures are not kept.

    Raises:
        ArchiveRefused: a version has none.
    """
    versions = archive.index.versions
    unsigned = [str(one.number) for one in versions if one.digest not in signed]
    if unsigned:
        many = len(unsigned) > 1
        why = "; ".join(left_out) or "without a signature"
        raise ArchiveRefused(
            f"version{'s' if many else ''} {', '.join(unsigned)} of {archive.index.model} in the file "
            f"{'are' if many else 'is'} signed by nobody who is trusted ({why}), so nothing was added. Have "
            "the vendor sign the release, trust the key that signed it, or import with --allow-unsigned"
        )


def _signed(connection: Connection, version: Version) -> set[str]:
    return {one.object for one in signatures_of_version(connection, version)}


def _was_imported(connection: Connection, archive: ReadRelease) -> bool:
    which = (EventRow.model == archive.index.model, EventRow.kind == "imported")
    stated = (one.details or {} for one in events_where(connection, *which))
    return any(details.get("origin", {}).get("list") == archive.digest for details in stated)


def _details(archive: ReadRelease, signatures: tuple[Signature, ...]) -> dict[str, Any]:
    """The release's origin for the event; `list` is the digest of `release.json`, which the store keeps."""
    index = archive.index
    promotion = index.promotion
    assert promotion is not None  # reading the index has looked
    return {
        "origin": {
            "list": archive.digest,
            "alias": index.alias,
            "release": index.release,
            "registry": index.registry,
            "event": promotion.id,
            "key": promotion.key,
            "time": promotion.time,
            "versions": [{"number": one.number, "digest": one.digest} for one in index.versions],
        },
        "signatures": [
            {"number": one.number, "object": one.object, "identity": one.identity} for one in signatures
        ],
    }
