"""Key agreement between two clients through the coordinator, and encryption under the agreed keys.

Key agreement X25519 (RFC 7748), derivation HKDF-SHA256 (RFC 5869), sealing AES-256-GCM; all of them those
of the package `cryptography`. Every key is derived for one session and one use.
"""

import hashlib
import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from training.errors import MessageError
from training.secure_random import KEY_BYTES

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


def agree(private: bytes, public: bytes, session: bytes, use: str) -> bytes:
    """As `Agreement.with_`, with one other."""
    return Agreement(private).with_(public, session, use)


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
