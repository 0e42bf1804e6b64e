"""Making a signature, and telling whether one is of a trusted key and over the right files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from registry.signing.envelope import Envelope, read_envelope, signed_bytes, write_envelope
from registry.signing.pem import (
    CURVES,
    Signer,
    Trust,
    fingerprint,
    hint_of,
    is_authority,
    may_sign,
    subject,
    valid_at,
)
from registry.signing.statement import read_statement, statement

Verdict = Literal["valid", "unknown", "forged"]


@dataclass(frozen=True)
class Checked:
    """What there is to say about one signature.

    Attributes:
        verdict: `valid`: a trusted key signed these files; `unknown`: nobody who is trusted; `forged`: it is
            not what it claims to be.
        identity: whose it is if it is valid, else whose it claims to be; None where it does not say.
        why: what is wrong with it; empty for `valid`.
        names: what the registry may have written down of who signed, if it is valid.
    """

    verdict: Verdict
    identity: str | None
    why: str = ""
    names: tuple[str, ...] = ()


def sign(name: str, files: Mapping[str, str], signer: Signer) -> bytes:
    """The signer's signature of the model `name` with these files, as it lies in the store."""
    payload = statement(name, files)
    public = signer.key.public_key()
    signature = signer.key.sign(signed_bytes(payload), ec.ECDSA(_hash_for(public)))
    if signer.certificate is None:
        return write_envelope(Envelope(payload, signature, hint=hint_of(public)))
    return write_envelope(
        Envelope(payload, signature, certificate=signer.certificate.public_bytes(Encoding.DER))
    )


def check(content: bytes, files: Mapping[str, str], trust: Trust, signed: datetime) -> Checked:
    """Whether a trusted key signed these files.

    Args:
        content: the signature as it lies in the store.
        files: names and digests of the files that it should be over.
        trust: whose signatures count.
        signed: when it was made, as the registry holds it: the moment a certificate must have been valid.
    """
    try:
        envelope = read_envelope(content)
        said = read_statement(envelope.payload)
    except ValueError as error:
        return Checked("forged", None, str(error))
    if said != dict(files):
        return Checked("forged", None, "it is over other files")
    if envelope.hint is not None:
        key = trust.keys.get(envelope.hint)
        if key is None:
            return Checked(
                "unknown", None, f"the key whose PEM text has sha256 {envelope.hint} is not trusted"
            )
        return _verified(envelope, key, fingerprint(key))
    assert envelope.certificate is not None
    return _check_certificate(envelope, envelope.certificate, trust, signed)


def _check_certificate(envelope: Envelope, der: bytes, trust: Trust, signed: datetime) -> Checked:
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        usable = may_sign(certificate)
    except ValueError as error:
        return Checked("forged", None, f"its certificate cannot be read ({error})")
    who = subject(certificate)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        return Checked("unknown", who, f"the key of {who} is of a kind that is not accepted")
    if hint_of(key) in trust.keys:  # the key is trusted, and not what the certificate says of it
        return _verified(envelope, key, fingerprint(key), who)
    if not any(_vouches(one, certificate, signed) for one in trust.certificates):
        return Checked("unknown", who, f"the certificate of {who} is not trusted, nor one that issued it")
    if not usable:
        return Checked("unknown", who, f"the certificate of {who} is not for digital signatures")
    if not valid_at(certificate, signed):
        return Checked("unknown", who, f"the certificate of {who} was not valid when this was signed")
    return _verified(envelope, key, who)


def _vouches(trusted: x509.Certificate, certificate: x509.Certificate, signed: datetime) -> bool:
    """Whether the trusted certificate is this one, or of the authority that issued it."""
    if trusted == certificate:
        return True
    if not is_authority(trusted) or not valid_at(trusted, signed):
        return False
    try:
        certificate.verify_directly_issued_by(trusted)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _verified(envelope: Envelope, key: ec.EllipticCurvePublicKey, identity: str, *names: str) -> Checked:
    try:
        key.verify(envelope.signature, signed_bytes(envelope.payload), ec.ECDSA(_hash_for(key)))
    except InvalidSignature:
        return Checked("forged", identity, f"it claims to be of {identity}, and is not")
    return Checked("valid", identity, names=(identity, *names))


def _hash_for(key: ec.EllipticCurvePublicKey) -> hashes.HashAlgorithm:
    """The hash that goes with the key's curve: as long as the curve is strong."""
    by_size: dict[int, hashes.HashAlgorithm] = {
        256: hashes.SHA256(),
        384: hashes.SHA384(),
        521: hashes.SHA512(),
    }
    return by_size[key.key_size]
