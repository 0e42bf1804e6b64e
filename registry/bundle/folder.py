"""A bundle on disk: a folder with `model.onnx` and `bundle.json`, written whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from registry.bundle.errors import BundleCorrupt, FolderError
from registry.bundle.manifest import BundleManifest, ModelFile, canonical, read_manifest, sha256

MODEL_FILE = "model.onnx"
MANIFEST_FILE = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and checked.

    Attributes:
        manifest: what `bundle.json` says.
        model: the bytes of `model.onnx`.
        digest: sha256 of `bundle.json`, which holds the sha256 of `model.onnx`: it names the bundle.
    """

    manifest: BundleManifest
    model: bytes
    digest: str


def bundle_digest(manifest: BundleManifest) -> str:
    """The digest that identifies the bundle with this manifest."""
    return sha256(canonical(manifest))


def write_bundle(folder: Path, manifest: BundleManifest, model: bytes) -> str:
    """Writes a new bundle and returns its digest.

    Both files are written next to `folder`, flushed to the disk and moved into place together, so that
    a crash leaves either the bundle or nothing. Writing the same bundle again changes nothing.

    Raises:
        BundleCorrupt: the manifest names another model than this one.
        FolderError: something else is there already, or the disk refuses.
    """
    if manifest.file != (actual := ModelFile.of(model)):
        raise BundleCorrupt(
            f"the manifest is for a model of {manifest.file.size:,} bytes with {manifest.file.sha256}; this "
            f"one has {actual.size:,} bytes with {actual.sha256}. Set `file=ModelFile.of(model)`"
        )
    text = canonical(manifest)
    write_bundle_files(folder, text, model)
    return sha256(text)


def write_bundle_files(folder: Path, text: bytes, model: bytes) -> None:
    """Writes the two files of a bundle as they are, whole or not at all; again changes nothing.

    Raises:
        FolderError: something else is there already, or the disk refuses.
    """
    files = {MODEL_FILE: model, MANIFEST_FILE: text}
    if folder.exists():
        held = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
        if held.keys() == files.keys() and all(read_file(held[name]) == files[name] for name in files):
            return
        raise FolderError(
            f"{folder} is there already and is not this bundle; choose another folder or remove it"
        )
    try:
        _write_whole(folder, files)
    except OSError as error:
        raise FolderError(
            f"the bundle cannot be written to {folder} ({error.strerror}); check the disk and its permissions"
        ) from error


def read_bundle(folder: Path) -> Bundle:
    """Reads a bundle and checks that its model is the one it was written with.

    Raises:
        FolderError: a file is missing or cannot be read.
        BundleCorrupt: a file is not the one that was written.
        ManifestError: `bundle.json` does not say what it must, or is of another schema.
    """
    text, model = read_file(folder / MANIFEST_FILE), read_file(folder / MODEL_FILE)
    manifest = read_manifest(text)
    check_model_file(folder / MODEL_FILE, ModelFile.of(model), manifest)
    return Bundle(manifest, model, sha256(text))


def check_model_file(path: Path, actual: ModelFile, manifest: BundleManifest) -> None:
    """Checks that a model's file is the one that the bundle was written with.

    Raises:
        BundleCorrupt: it is another.
    """
    if actual != manifest.file:
        raise BundleCorrupt(
            f"{path} has {actual.size:,} bytes with {actual.sha256}; {MANIFEST_FILE} says "
            f"{manifest.file.size:,} bytes with {manifest.file.sha256}. The model was altered: fetch the "
            "bundle again"
        )


def read_file(path: Path) -> bytes:
    """Reads a file of a bundle.

    Raises:
        FolderError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FolderError(
            f"{path} cannot be read ({error.strerror}); a bundle holds {MODEL_FILE} and {MANIFEST_FILE}"
        ) from error


def _write_whole(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            with (unfinished / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        unfinished.chmod(0o755)
        flush_folder(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Flushes a folder to the disk, so that what was renamed or made in it is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
