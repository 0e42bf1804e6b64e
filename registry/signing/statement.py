"""The signed statement: an in-toto statement of a bundle's files and their digests.

The predicate is that of the OpenSSF's model signing, https://model_signing/signature/v1.0: each file with its
sha256, and as the subject one digest over the digests of all files in the order of their names. So the tool
`model_signing verify` checks a bundle's folder against a signature of ours.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://model_signing/signature/v1.0"

_SERIALIZATION = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": []}


class _Record(BaseModel):
    """A part of a statement; parts that verifiers are to ignore may stand beside."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Subject(_Record):
    name: str
    digest: Mapping[str, str]


class _Resource(_Record):
    name: str
    algorithm: Literal["sha256"]
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Predicate(_Record):
    resources: tuple[_Resource, ...]


class _Statement(_Record):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject] = Field()
    predicate_type: Literal["https://model_signing/signature/v1.0"] = Field(alias="predicateType")
    predicate: _Predicate


def bundle_files(digest: str, model_digest: str) -> dict[str, str]:
    """The files of a bundle and their digests."""
    return {MANIFEST_FILE: digest, MODEL_FILE: model_digest}


def statement(name: str, files: Mapping[str, str]) -> bytes:
    """Writes the statement that the model `name` consists of these files, with digests as `sha256:...`."""
    resources = [
        {"name": file, "algorithm": "sha256", "digest": digest.removeprefix("sha256:")}
        for file, digest in sorted(files.items())
    ]
    said: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": _digest_of_all([one["digest"] for one in resources])}}
        ],
        "predicateType": PREDICATE,
        "predicate": {"serialization": _SERIALIZATION, "resources": resources},
    }
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_statement(payload: bytes) -> dict[str, str]:
    """Reads the files of a statement, with digests as `sha256:...`.

    Raises:
        ValueError: it is no such statement, or contradicts itself.
    """
    try:
        said = _Statement.model_validate_json(payload)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise ValueError(
            f"it says nothing about a model's files ({'.'.join(map(str, problem['loc']))}: {problem['msg']})"
        ) from error
    resources = said.predicate.resources
    names = [one.name for one in resources]
    if len(set(names)) != len(names):
        raise ValueError("it names a file twice")
    if said.subject[0].digest.get("sha256") != _digest_of_all([one.digest for one in resources]):
        raise ValueError("its files are not those of its subject")
    return {one.name: f"sha256:{one.digest}" for one in resources}


def _digest_of_all(digests: list[str]) -> str:
    return hashlib.sha256(b"".join(bytes.fromhex(one) for one in digests)).hexdigest()
