"""Keys and certificates in PEM files, signatures made and verified with them, and new key pairs.

Keys are of the elliptic curves P-256, P-384 and P-521, the ones that the OpenSSF's model signing has. A
trusted certificate vouches for signatures that carry it; that of an authority (CA) for those that carry one
which it issued itself. Chains over further authorities are not followed: trust the authority that issues.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from registry.envelope import (
    PAYLOAD_TYPE,
    Envelope,
    read_envelope,
    read_statement,
    signed_bytes,
    statement,
    write_envelope,
)
from registry.errors import KeyUnusable

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError as error:
    raise KeyUnusable(
        "keys and certificates cannot be read without the package cryptography; install dermfed[sign]"
    ) from error

CURVES: Final[Mapping[str, tuple[str, hashes.HashAlgorithm]]] = {
    "secp256r1": ("P-256", hashes.SHA256()),
    "secp384r1": ("P-384", hashes.SHA384()),
    "secp521r1": ("P-521", hashes.SHA512()),
}
"""The accepted curves, with their usual names and the hash that is as long as each is strong."""

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\r?\n?", re.DOTALL)
_MAKE_KEY = "make one with `openssl ecparam -name prime256v1 -genkey -noout -out key.pem`"


@dataclass(frozen=True)
class Signer:
    """A private key to sign with and, if there is one, its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate | None = None

    @property
    def identity(self) -> str:
        """The identity of the signer: the certificate's subject, or the public key's fingerprint."""
        return fingerprint(self.key.public_key()) if self.certificate is None else subject(self.certificate)


@dataclass(frozen=True)
class Trust:
    """The trusted keys and certificates: whose signatures count.

    Attributes:
        keys: public keys, by the hint that envelopes name them with.
        certificates: of signers, and of authorities that issue those of signers.
    """

    keys: Mapping[str, ec.EllipticCurvePublicKey]
    certificates: tuple[x509.Certificate, ...]


def trust_in_keys(keys: Iterable[ec.EllipticCurvePublicKey], beside: "Trust | None" = None) -> Trust:
    """Trust in these keys, and in the keys trusted in addition."""
    known = {} if beside is None else beside.keys
    return Trust(
        {**known, **{hint_of(key): key for key in keys}}, () if beside is None else beside.certificates
    )


def trust_in_signer(signer: Signer) -> Trust:
    """Trust in the signer alone."""
    key = signer.key.public_key()
    return Trust({hint_of(key): key}, ())


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """The sha256 of a public key, as `openssl pkey -pubin -in KEY -outform DER | sha256sum` prints it."""
    content = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(content).hexdigest()


def subject(certificate: x509.Certificate) -> str:
    """The subject of a certificate (RFC 4514)."""
    return certificate.subject.rfc4514_string()


def hint_of(key: ec.EllipticCurvePublicKey) -> str:
    """The hint by which an envelope names the key: sha256 of its PEM text (SubjectPublicKeyInfo), in hex."""
    return hashlib.sha256(public_key_text(key).encode()).hexdigest()


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether the certificate's key usage, if it names any, allows signatures."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage.digital_signature


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether the certificate is of an authority that may issue others."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    return constraints.ca


def valid_at(certificate: x509.Certificate, moment: datetime) -> bool:
    """Whether the certificate is valid at a moment."""
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def read_signer(key: Path, certificate: Path | None = None, password: str | None = None) -> Signer:
    """Reads the signer from its PEM files.

    Args:
        key: a private key in PEM.
        certificate: its certificate in PEM, if the signature shall carry one.
        password: of the private key, if it has one.

    Raises:
        KeyUnusable: a file holds something else, the two do not belong together, or the certificate is
            not for signing or not valid now.
    """
    content = _read(key)
    try:
        private = load_pem_private_key(content, None if password is None else password.encode())
    except TypeError as error:
        said = "has a password: set DERMFED_KEY_PASSWORD"
        if password is not None:
            said = "has no password: unset DERMFED_KEY_PASSWORD"
        raise KeyUnusable(f"the private key in {key} {said}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if b"-----BEGIN PUBLIC KEY-----" in content:
            raise KeyUnusable(f"{key} holds a public key; give the private one, which signs") from error
        raise KeyUnusable(
            f"{key} holds no private key in PEM that can be read, or its password is another; {_MAKE_KEY}"
        ) from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise KeyUnusable(f"the private key in {key} is {_kind(private)}; {_allowed()}")
    _check_curve(private.public_key(), key)
    if certificate is None:
        return Signer(private)
    found = [x509.load_pem_x509_certificate(block) for block in _blocks(certificate, "CERTIFICATE")]
    if len(found) != 1:
        raise KeyUnusable(f"{certificate} holds {len(found)} certificates; give the signer's alone")
    own, now = found[0], datetime.now(UTC)
    if own.public_key() != private.public_key():
        raise KeyUnusable(f"the certificate in {certificate} is not of the private key in {key}")
    if not may_sign(own):
        raise KeyUnusable(f"the certificate in {certificate} is not for digital signatures; have one issued")
    if not valid_at(own, now):
        raise KeyUnusable(
            f"the certificate in {certificate} is valid from {own.not_valid_before_utc:%Y-%m-%d} to "
            f"{own.not_valid_after_utc:%Y-%m-%d}, and not now; renew it"
        )
    return Signer(private, own)


def read_trust(files: Sequence[Path]) -> Trust:
    """Reads the trusted public keys and certificates in these files, each of which may hold several.

    Raises:
        KeyUnusable: a file contains none, or a key or certificate that cannot be read or is of a kind
            that is not accepted.
    """
    keys: dict[str, ec.EllipticCurvePublicKey] = {}
    certificates: list[x509.Certificate] = []
    for file in files:
        for block in _blocks(file, "PUBLIC KEY", "CERTIFICATE"):
            try:
                if b"BEGIN CERTIFICATE" in block:
                    certificates.append(x509.load_pem_x509_certificate(block))
                else:
                    key = _public_key(block, file)
                    keys[hint_of(key)] = key
            except (ValueError, UnsupportedAlgorithm) as error:
                raise KeyUnusable(
                    f"{file} holds a key or certificate that cannot be read: {error}"
                ) from error
    return Trust(keys, tuple(certificates))


def read_public_key(content: bytes, where: str | Path) -> ec.EllipticCurvePublicKey:
    """Reads one public key in PEM.

    Args:
        content: the PEM text.
        where: where it comes from, as errors say it.

    Raises:
        KeyUnusable: it is none, several, or of a kind that is not accepted.
    """
    found = list(_BLOCK.finditer(content))
    if len(found) != 1 or found[0][1] != b"PUBLIC KEY":
        kinds = " and ".join(match[1].decode().lower() for match in found) or "nothing in PEM"
        raise KeyUnusable(
            f"{where} holds {kinds}; give one public key, as `openssl pkey -in KEY -pubout` writes it"
        )
    try:
        return _public_key(found[0][0], where)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyUnusable(f"{where} holds a public key that cannot be read: {error}") from error


def read_key_file(path: Path) -> ec.EllipticCurvePublicKey:
    """Reads the one public key in a PEM file.

    Raises:
        KeyUnusable: it holds none, several, or one of a kind that is not accepted.
    """
    return read_public_key(_read(path), path)


def public_key_text(key: ec.EllipticCurvePublicKey) -> str:
    """The public key in PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _public_key(block: bytes, where: str | Path) -> ec.EllipticCurvePublicKey:
    key = load_pem_public_key(block)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise KeyUnusable(f"the public key in {where} is {_kind(key)}; {_allowed()}")
    _check_curve(key, where)
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyUnusable(f"{path} cannot be read ({error.strerror}); give a PEM file") from error


def _blocks(file: Path, *allowed: str) -> list[bytes]:
    """The blocks of a PEM file, if all are of the allowed kinds."""
    found = [(match[1].decode(), match[0]) for match in _BLOCK.finditer(_read(file))]
    wanted = " or ".join(f"{kind.lower()}s" for kind in allowed)
    if not found:
        raise KeyUnusable(f"{file} holds nothing in PEM; give a file of {wanted}")
    for kind, _ in found:
        if kind not in allowed:
            hint = " Take its public half: `openssl pkey -in KEY -pubout`" if "PRIVATE" in kind else ""
            raise KeyUnusable(f"{file} holds a {kind.lower()}; {wanted} are allowed here.{hint}")
    return [block for _, block in found]


def _check_curve(key: ec.EllipticCurvePublicKey, file: str | Path) -> None:
    if key.curve.name not in CURVES:
        raise KeyUnusable(f"the key in {file} is of the curve {key.curve.name}; {_allowed()}")


def _allowed() -> str:
    return f"keys of the curves {', '.join(name for name, _ in CURVES.values())} are allowed: {_MAKE_KEY}"


def _kind(key: object) -> str:
    return f"of another kind ({type(key).__name__.strip('_')})"


def sign_plainly(
    key: ec.EllipticCurvePrivateKey, kind: str, payload: bytes, *, deterministic: bool = False
) -> bytes:
    """The signature (DER) over a payload of a type; a deterministic one is the same each time (RFC 6979)."""
    algorithm = ec.ECDSA(CURVES[key.curve.name][1], deterministic_signing=deterministic)
    return key.sign(signed_bytes(payload, kind), algorithm)


def verify_plainly(key: ec.EllipticCurvePublicKey, kind: str, payload: bytes, signature: bytes) -> bool:
    """Whether the signature is of this key, over this payload of this type."""
    try:
        key.verify(signature, signed_bytes(payload, kind), ec.ECDSA(CURVES[key.curve.name][1]))
    except InvalidSignature:
        return False
    return True


def write_key_pair(file: Path, password: str | None) -> tuple[Path, str]:
    """Writes a new private key of P-256 (PKCS 8, its owner's alone) and, next to it, its public half.

    Returns:
        the file of the public key, and its fingerprint.

    Raises:
        KeyUnusable: one of the files is there already, or cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    cipher: KeySerializationEncryption = (
        BestAvailableEncryption(password.encode()) if password else NoEncryption()
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)
    public = file.with_name(f"{file.name.removesuffix('.key')}.pub")
    _write(public, public_key_text(key.public_key()).encode(), 0o644)
    try:
        _write(file, private, 0o600)
    except KeyUnusable:
        public.unlink()
        raise
    return public, fingerprint(key.public_key())


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
            target.write(content)
    except FileExistsError as error:
        raise KeyUnusable(f"{path} is there already, and no key is overwritten; name another file") from error
    except OSError as error:
        raise KeyUnusable(
            f"{path} cannot be written ({error.strerror}); check the folder and its permissions"
        ) from error


ACTION: Final = "application/vnd.dermfed.action+json"
"""The type of a signed statement, so that no signature of an action is one of anything else."""


class KeySignatory:
    """A person's private key, which signs whatever is done with it.

    Attributes:
        fingerprint: sha256 of its public half.
    """

    def __init__(self, signer: Signer) -> None:
        self._key = signer.key
        self.fingerprint = fingerprint(signer.key.public_key())

    @classmethod
    def read(cls, path: Path, password: str | None) -> "KeySignatory":
        """Reads a private key in PEM.

        Raises:
            KeyUnusable: the file holds none that can be used, or the password is another.
        """
        return cls(read_signer(path, None, password))

    def time(self) -> datetime:
        """Now."""
        return datetime.now(UTC)

    def sign(self, statement: bytes) -> bytes:
        """The key's signature over a statement."""
        return sign_plainly(self._key, ACTION, statement)


SignatureVerdict = Literal["valid", "unknown", "forged"]


@dataclass(frozen=True)
class CheckedSignature:
    """The result of verifying one signature.

    Attributes:
        verdict: `valid`: a trusted key signed these files; `unknown`: no trusted key did; `forged`: it is
            not what it claims to be.
        identity: whose it is if it is valid, else whose it claims to be; None where it does not say.
        why: what is wrong with it; empty for `valid`.
        names: the identities that the registry may have recorded for the signer, if it is valid.
    """

    verdict: SignatureVerdict
    identity: str | None
    why: str = ""
    names: tuple[str, ...] = ()


def sign_files(name: str, files: Mapping[str, str], signer: Signer) -> bytes:
    """Signs the model `name` with these files; returns the signature as the store holds it."""
    payload = statement(name, files)
    public = signer.key.public_key()
    signature = sign_plainly(signer.key, PAYLOAD_TYPE, payload)
    if signer.certificate is None:
        return write_envelope(Envelope(payload, signature, hint=hint_of(public)))
    return write_envelope(
        Envelope(payload, signature, certificate=signer.certificate.public_bytes(Encoding.DER))
    )


def check_signature(
    content: bytes, files: Mapping[str, str], trust: Trust, signed: datetime
) -> CheckedSignature:
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
