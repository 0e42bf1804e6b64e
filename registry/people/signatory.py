"""Whoever signs an action: with a key file, or in two steps with a key that is elsewhere.

A person in front of a browser keeps their key there. So the action is tried first by somebody who signs
nothing and only takes down what would be signed (`TakesDown`); what the trial wrote is undone. Then it is
done with what the browser has signed meanwhile (`SignedBefore`), which holds for exactly these statements:
if anything has changed between, it is refused.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from registry.errors import PersonRefused, SignedForAnother
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


class TakesDown:
    """Somebody whose key is elsewhere: signs nothing, and takes down what they would sign.

    Attributes:
        fingerprint: of their public key.
        statements: canonical JSON of each, in the order of the events.
    """

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.statements: list[bytes] = []
        self._time = datetime.now(UTC)

    def time(self) -> datetime:
        """When the trial began."""
        return self._time

    def sign(self, statement: bytes) -> bytes:
        """Takes it down; what comes back is no signature."""
        self.statements.append(statement)
        return b""


class SignedBefore:
    """Somebody who has signed what is to be done already: one statement for each event that it makes.

    Attributes:
        fingerprint: of their public key.
    """

    def __init__(self, public_key: str, signed: Mapping[bytes, bytes]) -> None:
        """Keeps what was signed.

        Args:
            public_key: theirs, in PEM.
            signed: the signature (DER) over each statement.

        Raises:
            PersonRefused: nothing was signed, or not at one moment.
        """
        self._key = read_public_key(public_key.encode(), "the registry")
        self.fingerprint = fingerprint(self._key)
        self._signed = dict(signed)
        self._time = _one_time(self._signed)

    def time(self) -> datetime:
        """When it was signed."""
        return self._time

    def sign(self, statement: bytes) -> bytes:
        """The signature, if this was signed.

        Raises:
            SignedForAnother: it was not, or too long ago.
            PersonRefused: the signature is not of this key.
        """
        signature = self._signed.get(statement)
        if signature is None:
            raise SignedForAnother(
                "what was signed is not what would be done now: the registry has changed since; look again, "
                "and sign anew"
            )
        if not abs(datetime.now(UTC) - self._time) <= FRESH:
            raise SignedForAnother(
                f"this was signed at {self._time.isoformat(timespec='seconds')}, more than "
                f"{FRESH // timedelta(minutes=1)} minutes from now; sign anew"
            )
        if not verify_plainly(self._key, ACTION, statement, signature):
            raise PersonRefused(f"the signature is not of the key {self.fingerprint}; sign with that key")
        return signature


def _one_time(signed: Iterable[bytes]) -> datetime:
    """The moment that all of these statements tell."""
    try:
        (time,) = {json.loads(statement)["time"] for statement in signed}
        return datetime.fromisoformat(time).astimezone(UTC)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PersonRefused(f"what was signed is no action of a registry ({error}); sign anew") from error
