"""Keys of a secure sum: agreement between two clients through the coordinator, sealing, and signatures.

Key agreement X25519 (RFC 7748), derivation HKDF-SHA256 (RFC 5869), sealing AES-256-GCM; all of them those of
the package `cryptography`. Every key is derived for one session and one use.

Identities: a hospital's certificate and key, with which it signs what it says in a secure sum.

Where clients are sites of a network, public keys for masks travel through the coordinator, which could put
its own in their place. So each client signs its keys with the private key of its certificate, and checks
those of all others: issued by the federation's authority, valid now, made out to the client's name, and with
the public key that this name had before. Clients in one process have no identities, and nothing is signed.

Signatures are RSASSA-PSS with SHA-256 and the longest salt (RFC 8017), those of the package `cryptography`.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from training.config import FrozenConfig
from training.errors import MessageError
from training.randomness import KEY_BYTES

NONCE_BYTES, TAG_BYTES = 12, 16


@dataclass(frozen=True)
class KeyPair:
    """A private key of X25519 and its public one, 32 bytes each."""

    private: bytes
    public: bytes

    @classmethod
    def new(cls) -> "KeyPair":
        """A fresh pair, drawn by the operating system."""
        return cls.of(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def of(cls, private: bytes) -> "KeyPair":
        """The pair of a private key."""
        key = X25519PrivateKey.from_private_bytes(private)
        return cls(private, key.public_key().public_bytes_raw())


class Agreement:
    """One's own private key, ready to agree with many: to read it takes as long as to agree."""

    def __init__(self, private: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(private)

    def with_(self, public: bytes, session: bytes, use: str) -> bytes:
        """The 32 bytes that two sides derive alike for one use in one session.

        Raises:
            MessageError: when the other's public key is none.
        """
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise MessageError(f"a public key of a client is no key of X25519: {error}") from error
        return derive(shared, session, use)


def derive(secret: bytes, session: bytes, use: str) -> bytes:
    """32 bytes from a secret, for one use in one session."""
    info = b"dermfed secure aggregation 1 " + use.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=session, info=info).derive(secret)


def session_of(address: str, names: list[str], public_keys: bytes) -> bytes:
    """What names one session: a digest of what is summed, of who takes part and of their public keys."""
    parts = [address.encode(), *(name.encode() for name in names), public_keys]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """`content` that only who has the key reads; `about` is not hidden but cannot be changed."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """What `seal` sealed.

    Raises:
        MessageError: when it was changed on its way, or is of another session.
    """
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about)
    except InvalidTag as error:
        raise MessageError(
            "shares from another client cannot be opened: they were changed on their way, or are of another "
            "session; nothing is sent"
        ) from error


PADDING = PSS(MGF1(SHA256()), PSS.MAX_LENGTH)


class Signed(FrozenConfig):
    """A statement's signature, and the certificate of its signer.

    Attributes:
        certificate: in PEM.
        signature: hexadecimal.
    """

    certificate: str
    signature: str


class KnownHospitals(Protocol):
    """Which hospitals a client has to do with, and by which keys it knows them."""

    def require(self, fingerprints: Mapping[str, str]) -> None:
        """Take note of the keys of those in a sum, by name.

        Raises:
            MessageError: for a hospital that is none of the federation, or has another key than before.
        """


@dataclass(frozen=True)
class Identity:
    """With what a client signs, and against what it checks others.

    Attributes:
        name: the client's.
        run: what all clients of one run share, so that a signature is good for no other.
        certificate, key: its own.
        authority: the federation's.
        known: the hospitals that it knows.
    """

    name: str
    run: str
    certificate: x509.Certificate
    key: RSAPrivateKey
    authority: x509.Certificate
    known: KnownHospitals

    def sign(self, statement: Mapping[str, Any]) -> Signed:
        """Sign a statement of this run."""
        signature = self.key.sign(self._content(self.name, statement), PADDING, SHA256())
        return Signed(
            certificate=self.certificate.public_bytes(Encoding.PEM).decode(), signature=signature.hex()
        )

    def check(self, name: str, signed: Signed, statement: Mapping[str, Any]) -> RSAPublicKey:
        """The public key of the client of this name, after checking its certificate and signature.

        Raises:
            MessageError: saying what is wrong with which.
        """
        key = self._key_of(name, signed)
        try:
            key.verify(bytes.fromhex(signed.signature), self._content(name, statement), PADDING, SHA256())
        except (InvalidSignature, ValueError) as error:
            raise MessageError(f"{name} did not sign this: {statement}") from error
        return key

    def _key_of(self, name: str, signed: Signed) -> RSAPublicKey:
        try:
            found = x509.load_pem_x509_certificate(signed.certificate.encode())
            found.verify_directly_issued_by(self.authority)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise MessageError(
                f"the certificate of {name} is not one that the federation's authority issued: {error}"
            ) from error
        now = datetime.now(UTC)
        for each in (found, self.authority):
            if not each.not_valid_before_utc <= now <= each.not_valid_after_utc:
                raise MessageError(
                    f"the certificate of {each.subject.rfc4514_string()} is good from "
                    f"{each.not_valid_before_utc:%Y-%m-%d} to {each.not_valid_after_utc:%Y-%m-%d} and not "
                    "now; renew it (`dermfed-node renew`), or set the clock"
                )
        names = [each.value for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names != [name]:
            raise MessageError(f"the certificate of {name} is made out to {', '.join(map(str, names))}")
        key = found.public_key()
        if not isinstance(key, RSAPublicKey):
            raise MessageError(f"the certificate of {name} holds no RSA key; its kit is to be made anew")
        return key

    def _content(self, name: str, statement: Mapping[str, Any]) -> bytes:
        whole = {"in": "dermfed secure aggregation 2", "run": self.run, "client": name, **statement}
        return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def fingerprint(key: RSAPublicKey) -> str:
    """The SHA-256 of a public key's SubjectPublicKeyInfo, which renewals leave as it is."""
    return (
        "sha256:"
        + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    )
