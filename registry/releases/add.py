"""Adding bundles as versions: each is checked, its objects are stored, and one transaction refers to them.

What is checked of a bundle: its folder holds two files and nothing else, neither larger than allowed; its
digests, names and counts agree; and its graph answers drawn pictures as it should
(`registry.releases.probe`).

A model is copied into the store by pieces, under a name that is never read, and hashed meanwhile; the copy is
what is checked, and it becomes the object once all bundles are found sound. So a folder that changes
meanwhile changes nothing.
"""

import logging
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from registry.attestation import check_attestation
from registry.bundle.consistency import contradictions
from registry.bundle.errors import FolderError, ManifestError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, Bundle, check_model_file, read_file
from registry.bundle.manifest import BundleManifest, ModelFile, canonical, read_manifest, sha256
from registry.bundle.text import alike, shown_name
from registry.database.changes import AuditContext, insert_event, insert_version
from registry.database.connection import reading, writing
from registry.database.queries import acting_person, version_by_digest, withdrawals
from registry.errors import BundleRefused, InvalidName
from registry.names import check_name, check_title
from registry.records import Added, EventKind
from registry.releases.labels import shared_files
from registry.releases.probe import probe_model
from registry.store import Staged, Store
from registry.stored_bundles import require_not_lost, restore_collected

logger = logging.getLogger(__name__)

MAX_MODEL_BYTES: Final = 2**31 - 1
"""The largest `model.onnx`: as large as one ONNX file can be."""

MAX_MANIFEST_BYTES: Final = 2**26
"""The largest `bundle.json`: the statistics of an embedding of 4096 features take most of it."""

_PROBLEMS_NAMED: Final = 3


@dataclass(frozen=True)
class Incoming:
    """One bundle that is to be added.

    Attributes:
        manifest: what its `bundle.json` says.
        digest: of `bundle.json`.
        text: the bytes of `bundle.json`.
        model: where its model is read from, or the model's bytes.
    """

    manifest: BundleManifest
    digest: str
    text: bytes
    model: Path | bytes

    @classmethod
    def of(cls, given: Bundle | Path | str) -> "Incoming":
        """A bundle in memory or in a folder, checked but for its model."""
        if isinstance(given, Bundle):
            text = check_manifest(given.manifest, given.digest, len(given.model))
            return cls(given.manifest, given.digest, text, given.model)
        folder = Path(given)
        manifest, digest = read_folder_manifest(folder)
        text = check_manifest(manifest, digest, (folder / MODEL_FILE).stat().st_size)
        return cls(manifest, digest, text, folder / MODEL_FILE)


def add_bundles(
    engine: Engine, store: Store, context: AuditContext, given: Iterable[Bundle | Path | str]
) -> Added:
    """Adds bundles, or those in folders, as versions, all of them or none; no folder's model is in memory.

    Raises:
        BundleError: a folder holds no sound bundle.
        BundleRefused: a folder holds more than a bundle, or one that could not answer.
        InvalidName: a model has a name that the registry cannot take.
        PersonRefused: a bundle is new, and it is not signed by a person who may add it.
        StoreError: the store cannot be written, or is not ours.
    """
    incoming = [Incoming.of(one) for one in given]
    known = _known(engine, store, context, "added", [(one.manifest.model, one.digest) for one in incoming])
    staged: dict[str, Staged] = {}
    sources: dict[str, bytes | Path] = {}
    with ExitStack() as copies:
        for one in incoming:
            copy = staged.get(one.manifest.file.sha256)
            if copy is None or sources[copy.digest] is not one.model:
                copy = copies.enter_context(store.staged(one.model, MAX_MODEL_BYTES))
                found = ModelFile(sha256=copy.digest, size=copy.size)
                if isinstance(one.model, bytes):
                    _check_model(one.manifest, one.digest, found)
                else:
                    check_model_file(one.model, found, one.manifest)
                staged[copy.digest], sources[copy.digest] = copy, one.model
            probe_model(copy.path, one.manifest, _title(one.manifest, one.digest))
        damaged = _damaged(store, [incoming[place] for place in known])
        for copy in staged.values():
            store.keep(copy)
    for one in incoming:
        store.put(one.text)
    for digest in damaged:
        logger.warning("object %s was missing or altered, and is right again", digest)
    with writing(engine) as connection:
        restore_collected(store, sources | {one.digest: one.text for one in incoming})
        inserted = [insert_version(connection, one.manifest, one.digest) for one in incoming]
        new = tuple(version for version, is_new in inserted if is_new)
        for model in dict.fromkeys(version.model for version in new):
            numbers = [version.number for version in new if version.model == model]
            insert_event(connection, "added", model, context, versions=numbers)
        versions = tuple(version for version, _ in inserted)
        withdrawn = {(one.model, one.number): one for one in withdrawals(connection)}
        warnings = [
            f"version {one.number} of {one.model} is {withdrawn[one.model, one.number]}"
            for one in versions
            if (one.model, one.number) in withdrawn
        ]
        for model in dict.fromkeys(version.model for version in versions):
            warnings += shared_files(connection, [one for one in versions if one.model == model])
    return Added(versions, new, damaged, tuple(warnings))


def put_contents(
    engine: Engine,
    store: Store,
    context: AuditContext,
    contents: Mapping[str, bytes],
    bundles: Sequence[tuple[str, str]],
) -> None:
    """Puts contents into the store.

    Args:
        engine: the database.
        store: where they are put.
        context: who imports them.
        contents: the bytes of each object, by digest.
        bundles: the model and digest of each bundle that they belong to.

    Raises:
        PersonRefused: new versions are to be added, and it is not signed by a person who may add them.
        StoreError: the store cannot be written, or is lost and new versions are to be added.
    """
    _known(engine, store, context, "imported", bundles)
    for content in contents.values():
        store.put(content)


def _known(
    engine: Engine, store: Store, context: AuditContext, kind: EventKind, bundles: Sequence[tuple[str, str]]
) -> tuple[int, ...]:
    """The places of those bundles, by model and digest, that are versions already.

    Where others are new, the person who adds them is checked before anything is put into the store.
    """
    with reading(engine) as connection:
        known = tuple(
            place for place, one in enumerate(bundles) if version_by_digest(connection, *one) is not None
        )
        if len(known) < len(bundles):
            acting_person(connection, kind, context.signatory)
            require_not_lost(connection, store)
        return known


def _damaged(store: Store, known: Iterable[Incoming]) -> tuple[str, ...]:
    """The digests of known bundles' objects that are missing or altered."""
    digests = [digest for one in known for digest in (one.digest, one.manifest.file.sha256)]
    return tuple(digest for digest in dict.fromkeys(digests) if store.check(digest) != "intact")


def read_folder_manifest(folder: Path) -> tuple[BundleManifest, str]:
    """Reads the manifest of a bundle's folder that holds nothing else, and its digest; the model is not read.

    Files whose names begin with a dot are the desktop's and are never read.

    Raises:
        BundleRefused: something else lies in the folder, or a file is too large.
        BundleError: the folder holds no sound bundle.
    """
    try:
        found = {path.name: path.stat() for path in folder.iterdir() if not path.name.startswith(".")}
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be read ({error.strerror}); give a folder with {MODEL_FILE} and {MANIFEST_FILE}"
        ) from error
    limits = {MODEL_FILE: MAX_MODEL_BYTES, MANIFEST_FILE: MAX_MANIFEST_BYTES}
    if more := sorted(set(found) - set(limits)):
        shown = ", ".join(repr(name[:60]) for name in more[:3]) + (
            f", ... ({len(more)} in all)" if len(more) > 3 else ""
        )
        raise BundleRefused(
            f"{folder} holds {shown} beside {MODEL_FILE} and {MANIFEST_FILE}, which no digest covers "
            "and nothing checks; move what else there is out of the folder"
        )
    for name, limit in limits.items():
        if name not in found or not stat.S_ISREG(found[name].st_mode):
            wrong = "is no file" if name in found else "is not there"
            raise FolderError(
                f"{folder / name} {wrong}; a bundle is a folder with {MODEL_FILE} and {MANIFEST_FILE}"
            )
        check_size(f"{folder / name}", found[name].st_size, limit)
    text = read_file(folder / MANIFEST_FILE)
    return read_manifest(text), sha256(text)


def check_size(what: str, size: int, limit: int = MAX_MODEL_BYTES) -> None:
    """Checks the size of a file, by default of a model, against its limit.

    Raises:
        BundleRefused: it is too large.
    """
    if size > limit:
        raise BundleRefused(f"{what} has {size:,} bytes; allowed are {limit:,}: choose a smaller network")


def check_bundle(bundle: Bundle) -> bytes:
    """Validates a bundle: whether any machine could serve it; returns the canonical text of its manifest.

    Raises:
        InvalidName: its model has a name that the registry cannot take.
        BundleRefused: its digests are not those of its files, or its graph is too large, not written in
            standard operators, does not load, does not fit or misbehaves.
    """
    content = check_manifest(bundle.manifest, bundle.digest, len(bundle.model))
    _check_model(bundle.manifest, bundle.digest, ModelFile.of(bundle.model))
    probe_model(bundle.model, bundle.manifest, _title(bundle.manifest, bundle.digest))
    return content


def _check_model(manifest: BundleManifest, digest: str, found: ModelFile) -> None:
    if found != manifest.file:
        raise BundleRefused(
            f"{_title(manifest, digest)} is for a model with {manifest.file.sha256}, and its model has "
            f"{found.sha256}; fetch the bundle again"
        )


def check_manifest(manifest: BundleManifest, digest: str, size: int) -> bytes:
    """Validates a bundle but for its model, of so many bytes; returns the canonical text of its manifest.

    Raises:
        InvalidName: its model has a name that the registry cannot take.
        BundleRefused: it is not the manifest of this digest, its model is too large, its names could mislead,
            its counts cannot be right, or the signature of its metrics is forged.
        KeyUnusable: that signature cannot be verified without the extra `sign`.
    """
    title = _title(manifest, digest)
    check_name("model", manifest.model)
    check_size(f"the model of {title}", size)
    try:
        content = canonical(manifest)
    except ManifestError as error:
        raise BundleRefused(f"{title} cannot be written: {error}") from error
    if (actual := sha256(content)) != digest:
        raise BundleRefused(f"{title} has a manifest of {actual}; read the bundle again")
    _check_names(manifest, title)
    check_counts(manifest, title)
    if check_attestation(manifest) == "forged":
        raise BundleRefused(
            f"{title} has metrics whose signature is forged: it is not of the key beside it, or "
            "over another bundle. Add the bundle as the run wrote it"
        )
    return content


def check_counts(manifest: BundleManifest, title: str) -> None:
    """Checks whether the counts of a bundle can be.

    Raises:
        BundleRefused: some of them contradict each other.
    """
    if problems := contradictions(manifest):
        named, more = "; ".join(problems[:_PROBLEMS_NAMED]), len(problems) - _PROBLEMS_NAMED
        raise BundleRefused(
            f"{title} has counts that cannot be right: {named}{f'; and {more} more' if more > 0 else ''}. "
            "Add the bundle as the run wrote it, or test the model anew"
        )


def _check_names(manifest: BundleManifest, title: str) -> None:
    """Checks the names that decide something: of subgroups, which gates judge by, and of classes."""
    named = {"subgroup": subgroup_names(manifest), "label": [label.code for label in manifest.labels]}
    for kind, names in named.items():
        try:
            for name in names:
                check_title(kind, name)
        except InvalidName as error:
            raise BundleRefused(f"{title} has names that could mislead: {error}; rename it") from error
        if pair := alike_among(names, cased=kind == "label"):
            raise BundleRefused(
                f"{title} has two {kind}s that look alike, {pair[0]!a} and {pair[1]!a}; give them "
                "one name, or names that cannot be confused"
            )


def subgroup_names(manifest: BundleManifest) -> list[str]:
    """Every subgroup that a bundle names: whom it is for, and on whom it was tested."""
    tested = manifest.evaluation.by_subgroup if manifest.evaluation is not None else ()
    return list(dict.fromkeys([*(one.name for one in manifest.named_subgroups), *tested]))


def alike_among(names: Sequence[str], *, cased: bool = False) -> tuple[str, str] | None:
    """Two of these names that people would take for one; None where there are none."""
    return next((pair for pair in combinations(names, 2) if alike(*pair, cased=cased)), None)


def _title(manifest: BundleManifest, digest: str) -> str:
    return f"the bundle {digest} of {manifest.model} ({shown_name(manifest.subgroup.name)})"
