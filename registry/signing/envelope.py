"""The stored form of a signature: a sigstore bundle (version 0.3) around a DSSE envelope, as JSON.

Reference: https://github.com/secure-systems-lab/dsse, the protocol of version 1. Beside the signature it
says whose it claims to be: the sha256 of the public key's PEM text, or the signer's certificate.
"""

import base64
import hashlib
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel

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
        hint: the sha256 of the public key's PEM text, in hex; None beside a certificate.
        certificate: the signer's certificate as DER; None beside a hint.
    """

    payload: bytes
    signature: bytes
    hint: str | None = None
    certificate: bytes | None = None


def signed_bytes(payload: bytes, kind: str = PAYLOAD_TYPE) -> bytes:
    """The bytes that are signed: PAE(type, payload) = "DSSEv1" len(type) type len(payload) payload."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def key_hint(pem: bytes) -> str:
    """The hint by which an envelope names a public key: sha256 of its PEM text (SubjectPublicKeyInfo)."""
    return hashlib.sha256(pem).hexdigest()


def _decoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError("it is no text")  # noqa: TRY004 - pydantic takes a ValueError
    return base64.b64decode(value, validate=True)


Base64 = Annotated[
    bytes, BeforeValidator(_decoded), PlainSerializer(lambda value: base64.b64encode(value).decode())
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


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
    chain = envelope.certificate and _Chain(certificates=(_Certificate(raw_bytes=envelope.certificate),))
    record = _SigstoreBundle(
        media_type=MEDIA_TYPE,
        verification_material=_Material(
            public_key=_PublicKey(hint=envelope.hint) if envelope.hint else None,
            x509_certificate_chain=chain or None,
        ),
        dsse_envelope=_Dsse(
            payload=envelope.payload,
            payload_type=PAYLOAD_TYPE,
            signatures=(_Signature(sig=envelope.signature),),
        ),
    )
    return record.model_dump_json(by_alias=True, exclude_none=True).encode()


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
