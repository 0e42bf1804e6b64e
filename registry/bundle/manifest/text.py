"""`bundle.json` as bytes: one canonical text per manifest, and reading it back."""

import json

from pydantic import ValidationError

from registry.bundle.errors import BundleCorrupt, ManifestError, OtherSchema
from registry.bundle.manifest.schema import SCHEMA_VERSION, BundleManifest, sha256


def canonical(manifest: BundleManifest) -> bytes:
    """The one text of a manifest: sorted keys, no spaces, UTF-8. Its sha256 is the bundle's digest."""
    return _text(manifest.model_dump(mode="json"))


def without_attestation(manifest: BundleManifest) -> BundleManifest:
    """The manifest as it is before anybody signs its figures."""
    return manifest.model_copy(update={"attestation": None})


def attested(manifest: BundleManifest) -> bytes:
    """What is signed of a manifest: its job, data, model and figures, and all of it without the signature.

    Canonical JSON. The last digest covers the others: they are there for whoever reads a statement.
    """
    bare = without_attestation(manifest)
    record = bare.model_dump(mode="json", include={"metrics", "reference"})
    return _text(
        {
            "job": bare.lineage.job,
            "data": dict(bare.lineage.data),
            "model": bare.file.sha256,
            "figures": sha256(_text(record)),
            "manifest": sha256(canonical(bare)),
        }
    )


def read_manifest(content: bytes) -> BundleManifest:
    """The manifest in the text of `bundle.json`.

    Raises:
        OtherSchema: another version of dermfed wrote it.
        BundleCorrupt: the text is not the canonical one: it was edited or re-formatted.
        ManifestError: the text does not say what a manifest must say.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleCorrupt(f"bundle.json is not JSON ({error}); fetch the bundle again") from error
    if not isinstance(record, dict):
        raise ManifestError(f"bundle.json holds a {type(record).__name__}; a manifest is an object")
    version = record.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise OtherSchema(
            f"bundle.json has schema_version {version!r}; this dermfed reads {SCHEMA_VERSION} alone: make "
            "the bundle again with this version, or read it with the one that wrote it"
        )
    if content != _text(record):
        raise BundleCorrupt(
            "bundle.json is not in its canonical form: it was edited after it was written. Fetch the bundle "
            "again"
        )
    try:
        return BundleManifest.model_validate(record)
    except ValidationError as error:
        raise ManifestError(f"bundle.json does not hold: {_problems(error)}") from error


def _text(record: object) -> bytes:
    try:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except ValueError as error:
        raise ManifestError(
            f"the manifest holds a number or a text that JSON cannot write ({error}); use None instead"
        ) from error


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'the manifest'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
