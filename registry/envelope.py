"""The stored form of a signature: a sigstore bundle, a DSSE envelope, and the in-toto statement in it.

The sigstore bundle (version 0.3, JSON) says next to the signature whose it claims to be: the sha256 of the
public key's PEM text, or the signer's certificate. The envelope is DSSE's of version 1,
https://github.com/secure-systems-lab/dsse. The statement's predicate is that of the OpenSSF's model
signing, https://model_signing/signature/v1.0: each file of a bundle with its sha256, and as the subject one
digest over the digests of all files in the order of their names. So the tool `model_signing verify` checks
a bundle's folder against a signature of ours.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
TRUSTED_KEYS: Final = "DERMFED_TRUSTED_KEYS"
"""The environment variable that lists files of trusted keys, separated as in `PATH`."""

LARGEST: Final = 2**20
"""The largest signature that is read, bytes; one of two files is far smaller."""


@dataclass(frozen=True)
class Envelope:
    """A signature with the payload that it is over.

    Attributes:
        payload: the statement, byte by byte.
        signature: of `signed_bytes(payload)`.
        hint: the sha256 of the public key's PEM text, in hex; None with a certificate.
        certificate: the signer's certificate as DER; None beside a hint.
    """

    payload: bytes
    signature: bytes
    hint: str | None = None
    certificate: bytes | None = None


def signed_bytes(payload: bytes, kind: str = PAYLOAD_TYPE) -> bytes:
    """The bytes that are signed: PAE(type, payload) = "DSSEv1" len(type) type len(payload) payload."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def _decoded(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("it is no text")  # noqa: TRY004 - pydantic takes a ValueError
    return base64.b64decode(value, validate=True)


Base64 = Annotated[bytes, BeforeValidator(_decoded)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


class _PublicKey(_Record):
    hint: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Certificate(_Record):
    raw_bytes: Base64


class _Chain(_Record):
    certificates: tuple[_Certificate, ...] = Field(min_length=1)


class _Material(_Record):
    public_key: _PublicKey | None = None
    x509_certificate_chain: _Chain | None = None
    tlog_entries: tuple[()] = ()


class _Signature(_Record):
    sig: Base64
    keyid: str = ""


class _Dsse(_Record):
    payload: Base64
    payload_type: Literal["application/vnd.in-toto+json"]
    signatures: tuple[_Signature]


class _SigstoreBundle(_Record):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"]
    verification_material: _Material
    dsse_envelope: _Dsse


def write_envelope(envelope: Envelope) -> bytes:
    """Serializes an envelope as JSON."""
    material: dict[str, Any] = {"tlogEntries": []}
    if envelope.hint is not None:
        material["publicKey"] = {"hint": envelope.hint}
    if envelope.certificate is not None:
        chain = {"certificates": [{"rawBytes": base64.b64encode(envelope.certificate).decode()}]}
        material["x509CertificateChain"] = chain
    record = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": material,
        "dsseEnvelope": {
            "payload": base64.b64encode(envelope.payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(envelope.signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(record, separators=(",", ":")).encode()


def read_envelope(content: bytes) -> Envelope:
    """Parses and validates the JSON of an envelope.

    Raises:
        ValueError: it holds none, or one that does not say whose it is.
    """
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content):,} bytes; a signature has at most {LARGEST:,}")
    try:
        record = _SigstoreBundle.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise ValueError(
            f"it is no signature ({'.'.join(map(str, problem['loc']))}: {problem['msg']})"
        ) from error
    material, dsse = record.verification_material, record.dsse_envelope
    hint = None if material.public_key is None else material.public_key.hint
    chain = material.x509_certificate_chain
    if (hint is None) == (chain is None):
        raise ValueError("it is no signature: it names neither a key nor a certificate, or both")
    return Envelope(
        dsse.payload, dsse.signatures[0].sig, hint, chain.certificates[0].raw_bytes if chain else None
    )


STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://model_signing/signature/v1.0"

_SERIALIZATION = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": []}


class _StatementRecord(BaseModel):
    """A part of a statement; parts that verifiers are to ignore may be added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Subject(_StatementRecord):
    name: str
    digest: Mapping[str, str]


class _Resource(_StatementRecord):
    name: str
    algorithm: Literal["sha256"]
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Predicate(_StatementRecord):
    resources: tuple[_Resource, ...]


class _Statement(_StatementRecord):
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
