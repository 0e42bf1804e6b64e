"""Validates a bundle before it becomes a version: its files, sizes, digests and graph must agree.

Its folder holds two files and nothing else, neither larger than allowed; that is checked before anything is
read. Its graph is ONNX in standard operators with all weights in it, and answers drawn pictures as it should;
that is up to `registry.releases.probe`.
"""

import os
import stat
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from registry.bundle.consistency import contradictions
from registry.bundle.errors import FolderError, ManifestError
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, Bundle, read_file
from registry.bundle.manifest import BundleManifest, ModelFile, canonical, read_manifest, sha256
from registry.bundle.text import alike, shown_name
from registry.errors import BundleRefused, InvalidName
from registry.names import check_name, check_title
from registry.releases.probe import probe_bytes
from registry.signing.attestation import check_attestation

MAX_MODEL_BYTES: Final = 2**30
"""The largest `model.onnx`, unless `DERMFED_MAX_MODEL_BYTES` sets another limit."""

MAX_MANIFEST_BYTES: Final = 2**26
"""The largest `bundle.json`: the statistics of an embedding of 4096 features take most of it."""

_TOLD = 3  # problems that a refusal names
_VARIABLE = "DERMFED_MAX_MODEL_BYTES"
_LARGEST_ONNX = 2**31 - 1  # what one ONNX file can be


def read_folder_manifest(folder: Path) -> tuple[BundleManifest, str]:
    """Reads the manifest of a bundle's folder that holds nothing else, and its digest; the model is not read.

    Files whose names begin with a dot are the desktop's and are never read.

    Raises:
        BundleRefused: something else lies in the folder, or a file is too large.
        BundleError: the folder holds no sound bundle.
    """
    _check_folder(folder)
    text = read_file(folder / MANIFEST_FILE)
    return read_manifest(text), sha256(text)


def _check_folder(folder: Path) -> None:
    try:
        found = {path.name: path.stat() for path in folder.iterdir() if not path.name.startswith(".")}
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be read ({error.strerror}); give a folder with {MODEL_FILE} and {MANIFEST_FILE}"
        ) from error
    if beside := sorted(set(found) - {MODEL_FILE, MANIFEST_FILE}):
        raise BundleRefused(
            f"{folder} holds {_few(beside)} beside {MODEL_FILE} and {MANIFEST_FILE}, which no digest covers "
            "and nobody checks; move what else there is out of the folder"
        )
    for name in (MODEL_FILE, MANIFEST_FILE):
        if name not in found or not stat.S_ISREG(found[name].st_mode):
            wrong = "is no file" if name in found else "is not there"
            raise FolderError(
                f"{folder / name} {wrong}; a bundle is a folder with {MODEL_FILE} and {MANIFEST_FILE}"
            )
    check_size(f"{folder / MODEL_FILE}", found[MODEL_FILE].st_size)
    if (size := found[MANIFEST_FILE].st_size) > MAX_MANIFEST_BYTES:
        raise BundleRefused(
            f"{folder / MANIFEST_FILE} has {size:,} bytes; allowed are {MAX_MANIFEST_BYTES:,}: export the "
            "model again"
        )


def check_size(what: str, size: int) -> None:
    """Checks the size of a model against the limit.

    Raises:
        BundleRefused: it is too large.
        InvalidName: `DERMFED_MAX_MODEL_BYTES` is no such number.
    """
    if size > (limit := largest_model()):
        raise BundleRefused(
            f"{what} has {size:,} bytes; allowed are {limit:,}: choose a smaller network, or set {_VARIABLE} "
            f"(up to {_LARGEST_ONNX:,})"
        )


def largest_model() -> int:
    """The most bytes that a model may have.

    Raises:
        InvalidName: `DERMFED_MAX_MODEL_BYTES` is no such number.
    """
    text = os.environ.get(_VARIABLE, str(MAX_MODEL_BYTES))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LARGEST_ONNX):
        raise InvalidName(
            f"{_VARIABLE} is {text!r}; it is a whole number of bytes from 1 to {_LARGEST_ONNX:,}"
        )
    return int(text)


def check_bundle(bundle: Bundle) -> bytes:
    """Validates a bundle: whether any machine could serve it; returns the canonical text of its manifest.

    Raises:
        InvalidName: its model has a name that the registry cannot take.
        BundleRefused: its digests are not those of its files, or its graph is too large, not written in
            standard operators, does not load, does not fit or misbehaves.
    """
    content = check_manifest(bundle.manifest, bundle.digest, len(bundle.model))
    check_file(bundle.manifest, bundle.digest, ModelFile.of(bundle.model))
    probe_bytes(bundle.model, bundle.manifest, title_of(bundle.manifest, bundle.digest))
    return content


def check_manifest(manifest: BundleManifest, digest: str, size: int) -> bytes:
    """Validates a bundle but for its model, of so many bytes; returns the canonical text of its manifest.

    Raises:
        InvalidName: its model has a name that the registry cannot take.
        BundleRefused: it is not the manifest of this digest, its model is too large, its names could mislead,
            or its figures cannot be right.
    """
    title = title_of(manifest, digest)
    check_name("model", manifest.model)
    check_size(f"the model of {title}", size)
    try:
        content = canonical(manifest)
    except ManifestError as error:
        raise BundleRefused(f"{title} cannot be written: {error}") from error
    if (actual := sha256(content)) != digest:
        raise BundleRefused(f"{title} has a manifest of {actual}; read the bundle again")
    _check_names(manifest, title)
    check_figures(manifest, title)
    check_measurer(manifest, title)
    return content


def check_file(manifest: BundleManifest, digest: str, actual: ModelFile) -> None:
    """Checks that a model is the one that the manifest is for.

    Raises:
        BundleRefused: it is another.
    """
    if actual != manifest.file:
        raise BundleRefused(
            f"{title_of(manifest, digest)} is for a model with {manifest.file.sha256}, and its model has "
            f"{actual.sha256}; fetch the bundle again"
        )


def check_measurer(manifest: BundleManifest, title: str) -> None:
    """Checks the signature of a bundle's figures, if it has one; whose it is, gates and people know.

    Raises:
        BundleRefused: it is not over this bundle, or not of the key beside it.
        KeyUnusable: it cannot be verified without the extra `sign`.
    """
    if check_attestation(manifest) == "forged":
        raise BundleRefused(
            f"{title} has figures whose signature is forged: it is not of the key beside it, or "
            "over another bundle. Add the bundle as the run wrote it"
        )


def check_figures(manifest: BundleManifest, title: str) -> None:
    """Checks whether the counts of a bundle can be.

    Raises:
        BundleRefused: some of them contradict each other.
    """
    problems = contradictions(manifest)
    if problems:
        more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise BundleRefused(
            f"{title} has counts that cannot be right: "
            f"{'; '.join(problems[:_TOLD])}{more}. "
            "Add the bundle as the run wrote it, or test the model anew"
        )


def _check_names(manifest: BundleManifest, title: str) -> None:
    """Checks the names that decide something: of subgroups, which gates judge by, and of classes."""
    subgroups = subgroup_names(manifest)
    codes = [label.code for label in manifest.labels]
    try:
        for name in subgroups:
            check_title("subgroup", name)
        for code in codes:
            check_title("label", code)
    except InvalidName as error:
        raise BundleRefused(f"{title} has names that could mislead: {error}; name it anew") from error
    for kind, names, cased in (("subgroups", subgroups, False), ("labels", codes, True)):
        if pair := alike_among(names, cased=cased):
            raise BundleRefused(
                f"{title} has two {kind} that look alike, {pair[0]!a} and {pair[1]!a}; give them "
                "one name, or names that nobody takes for each other"
            )


def subgroup_names(manifest: BundleManifest) -> list[str]:
    """Every subgroup that a bundle names: whom it is for, and on whom it was tested."""
    tested = manifest.evaluation.by_subgroup if manifest.evaluation is not None else ()
    return list(dict.fromkeys([*(one.name for one in manifest.named_subgroups), *tested]))


def alike_among(names: Sequence[str], *, cased: bool = False) -> tuple[str, str] | None:
    """Two of these names that people would take for one; None where there are none."""
    return next((pair for pair in combinations(names, 2) if alike(*pair, cased=cased)), None)


def _few(names: list[str]) -> str:
    shown = [repr(name[:60]) for name in names[:3]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")


def title_of(manifest: BundleManifest, digest: str) -> str:
    """What messages call a bundle."""
    return f"the bundle {digest} of {manifest.model} ({shown_name(manifest.subgroup.name)})"
