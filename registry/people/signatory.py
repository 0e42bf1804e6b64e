"""Whoever signs an action, with a key file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from registry.signing.pem import Signer, fingerprint, read_signer
from registry.signing.plain import sign_plainly

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
