"""Making a signature, and verifying one: by a trusted key, and over the right files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from registry.signing.envelope import (
    PAYLOAD_TYPE,
    Envelope,
    read_envelope,
    read_statement,
    statement,
    write_envelope,
)
from registry.signing.keys import (
    CURVES,
    Signer,
    Trust,
    fingerprint,
    hint_of,
    is_authority,
    may_sign,
    sign_plainly,
    subject,
    valid_at,
    verify_plainly,
)

SignatureVerdict = Literal["valid", "unknown", "forged"]


@dataclass(frozen=True)
class CheckedSignature:
    """The result of verifying one signature.

    Attributes:
        verdict: `valid`: a trusted key signed these files; `unknown`: nobody who is trusted; `forged`: it is
            not what it claims to be.
        identity: whose it is if it is valid, else whose it claims to be; None where it does not say.
        why: what is wrong with it; empty for `valid`.
        names: the identities that the registry may have recorded for the signer, if it is valid.
    """

    verdict: SignatureVerdict
    identity: str | None
    why: str = ""
    names: tuple[str, ...] = ()


def sign(name: str, files: Mapping[str, str], signer: Signer) -> bytes:
    """Signs the model `name` with these files; returns the signature as the store holds it."""
    payload = statement(name, files)
    public = signer.key.public_key()
    signature = sign_plainly(signer.key, PAYLOAD_TYPE, payload)
    if signer.certificate is None:
        return write_envelope(Envelope(payload, signature, hint=hint_of(public)))
    return write_envelope(
        Envelope(payload, signature, certificate=signer.certificate.public_bytes(Encoding.DER))
    )


def check(content: bytes, files: Mapping[str, str], trust: Trust, signed: datetime) -> CheckedSignature:
    """Verifies a signature: whether a trusted key signed these files.

    Args:
        content: the signature as the store holds it.
        files: names and digests of the files that it should be over.
        trust: whose signatures count.
        signed: when it was made, by the registry: the moment at which a certificate must have been valid.
    """
    try:
        envelope = read_envelope(content)
        said = read_statement(envelope.payload)
    except ValueError as error:
        return CheckedSignature("forged", None, str(error))
    if said != dict(files):
        return CheckedSignature("forged", None, "it is over other files")
    if envelope.hint is not None:
        key = trust.keys.get(envelope.hint)
        if key is None:
            return CheckedSignature(
                "unknown", None, f"the key whose PEM text has sha256 {envelope.hint} is not trusted"
            )
        return _verify_signature(envelope, key, fingerprint(key))
    assert envelope.certificate is not None
    return _check_certificate(envelope, envelope.certificate, trust, signed)


def _check_certificate(envelope: Envelope, der: bytes, trust: Trust, signed: datetime) -> CheckedSignature:
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        usable = may_sign(certificate)
    except ValueError as error:
        return CheckedSignature("forged", None, f"its certificate cannot be read ({error})")
    who = subject(certificate)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        return CheckedSignature("unknown", who, f"the key of {who} is of a kind that is not accepted")
    if hint_of(key) in trust.keys:  # the key is trusted, and not what the certificate says of it
        return _verify_signature(envelope, key, fingerprint(key), who)
    if not any(_issued_by(one, certificate, signed) for one in trust.certificates):
        return CheckedSignature(
            "unknown", who, f"the certificate of {who} is not trusted, nor one that issued it"
        )
    if not usable:
        return CheckedSignature("unknown", who, f"the certificate of {who} is not for digital signatures")
    if not valid_at(certificate, signed):
        return CheckedSignature(
            "unknown", who, f"the certificate of {who} was not valid when this was signed"
        )
    return _verify_signature(envelope, key, who)


def _issued_by(trusted: x509.Certificate, certificate: x509.Certificate, signed: datetime) -> bool:
    """Whether the trusted certificate is this one, or that of the authority that issued it."""
    if trusted == certificate:
        return True
    if not is_authority(trusted) or not valid_at(trusted, signed):
        return False
    try:
        certificate.verify_directly_issued_by(trusted)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _verify_signature(
    envelope: Envelope, key: ec.EllipticCurvePublicKey, identity: str, *names: str
) -> CheckedSignature:
    if not verify_plainly(key, PAYLOAD_TYPE, envelope.payload, envelope.signature):
        return CheckedSignature("forged", identity, f"it claims to be of {identity}, and is not")
    return CheckedSignature("valid", identity, names=(identity, *names))
