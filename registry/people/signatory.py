"""Whoever signs an action: with a key file, or in two steps with a key that is elsewhere.

A person in front of a browser keeps their key there. So the action is tried first by somebody who signs
nothing and only takes down what would be signed (`TakesDown`); its transaction is undone. Then it is done
with what the browser has signed meanwhile (`SignedBefore`), which holds for exactly that statement: if
anything has changed between, it is refused.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from registry.errors import PersonRefused
from registry.signing.pem import Signer, fingerprint, read_public_key, read_signer
from registry.signing.plain import sign_plainly, verify_plainly

ACTION: Final = "application/vnd.dermfed.action+json"
"""The type of a signed statement, so that no signature of an action is one of anything else."""

FRESH: Final = timedelta(minutes=15)
"""How long after it was signed an action may be done."""


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


class StatementTaken(Exception):  # noqa: N818 - it ends a trial, and is no error
    """Ends the trial of an action, with the statement that is to be signed.

    Attributes:
        statement: canonical JSON.
    """

    def __init__(self, statement: bytes) -> None:
        super().__init__("the action was tried, and nothing was done")
        self.statement = statement


class TakesDown:
    """Somebody whose key is elsewhere: takes down what they would sign.

    Attributes:
        fingerprint: of their public key.
    """

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._time = datetime.now(UTC)

    def time(self) -> datetime:
        """When the trial began."""
        return self._time

    def sign(self, statement: bytes) -> bytes:
        """Ends the trial.

        Raises:
            StatementTaken: always, with the statement.
        """
        raise StatementTaken(statement)


class SignedBefore:
    """Somebody who has signed one statement already.

    Attributes:
        fingerprint: of their public key.
    """

    def __init__(self, public_key: str, statement: bytes, signature: bytes, signed: datetime) -> None:
        """Keeps what was signed.

        Args:
            public_key: theirs, in PEM.
            statement: what they signed.
            signature: over it (DER).
            signed: when, as the statement says.
        """
        self._key = read_public_key(public_key.encode(), "the registry")
        self.fingerprint = fingerprint(self._key)
        self._statement, self._signature, self._signed = statement, signature, signed

    def time(self) -> datetime:
        """When it was signed."""
        return self._signed

    def sign(self, statement: bytes) -> bytes:
        """The signature, if it is over this statement.

        Raises:
            PersonRefused: it is over another, is not of this key, or is too old.
        """
        if statement != self._statement:
            raise PersonRefused(
                "what was signed is not what would be done now: the registry has changed since; look again, "
                "and sign anew"
            )
        if not abs(datetime.now(UTC) - self._signed) <= FRESH:
            raise PersonRefused(
                f"this was signed at {self._signed.isoformat(timespec='seconds')}, more than "
                f"{FRESH // timedelta(minutes=1)} minutes from now; sign anew"
            )
        if not verify_plainly(self._key, ACTION, statement, self._signature):
            raise PersonRefused(f"the signature is not of the key {self.fingerprint}; sign with that key")
        return self._signature
