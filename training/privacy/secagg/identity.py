"""Identities: a hospital's certificate and key, with which it signs what it says in a secure sum.

Where clients are sites of a network, public keys for masks travel through the coordinator, which could put
its own in their place. So each client signs its keys with the private key of its certificate, and checks
everybody's: issued by the federation's authority, valid now, made out to the client's name, and with the
public key that this name had before. Clients in one process have no identities, and nothing is signed.

Signatures are RSASSA-PSS with SHA-256 and the longest salt (RFC 8017), those of the package `cryptography`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from training.config import FrozenConfig
from training.errors import MessageError

PADDING = PSS(MGF1(SHA256()), PSS.MAX_LENGTH)


class Signed(FrozenConfig):
    """A statement's signature, and the certificate of whoever signed it.

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
