"""Who measured a bundle's figures: a signature of the coordinator that counted them, and its public key.

The signature is over a statement (`manifest.text.attested`) of a type of its own, so that no signature of
something else is one of figures. It is made and verified in `registry.signing`: here is no cryptography.
Whose the key is, the bundle does not say; a gate or a person knows it by its fingerprint.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

from pydantic import Field, model_validator

from registry.bundle.frozen import Frozen

ATTESTATION: Final = "application/vnd.dermfed.figures+json"
"""The type of a signed statement about figures."""

UNSIGNED: Final = "the uploader's word: nobody who measured them has signed"
"""What is said of figures without a signature."""

_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END PUBLIC KEY-----\n")
_LARGEST = 2000  # characters of a key or a signature; those of P-521 are far smaller


class Attestation(Frozen):
    """A signature of whoever measured the figures.

    Attributes:
        public_key: of the key, in PEM (SubjectPublicKeyInfo).
        signature: over `attested(manifest)`, as DER in base64.
    """

    public_key: str = Field(max_length=_LARGEST)
    signature: str = Field(min_length=1, max_length=_LARGEST)

    @property
    def fingerprint(self) -> str:
        """The sha256 of the public key, as people and gates name it; of whom, it does not say."""
        return "sha256:" + hashlib.sha256(self._key).hexdigest()

    @property
    def signed(self) -> bytes:
        """The signature (DER)."""
        return base64.b64decode(self.signature, validate=True)

    @property
    def _key(self) -> bytes:
        match = _PEM.fullmatch(self.public_key)
        if match is None:
            raise ValueError("attestation.public_key is one public key in PEM, and nothing beside it")
        return base64.b64decode(match[1].replace("\n", ""), validate=True)

    @model_validator(mode="after")
    def _can_be_read(self) -> "Attestation":
        try:
            assert self._key is not None
            assert self.signed is not None
        except binascii.Error as error:
            raise ValueError(f"attestation holds base64 that cannot be read: {error}") from error
        return self
