"""What a node signs sums with, and which hospitals it knows: read from its kit, and kept there.

A hospital sums with those that are in the federation file of its own kit, and knows each by the public key
of the certificate with which it first did. A coordinator that holds the authority can make certificates as it
likes; under a name that is not in that file, or with another key than before, they are refused. What is left
is the first time: fingerprints are logged, to be compared with what `dermfed-node check` says at the other
hospital.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from clients.federation.errors import KitError
from clients.federation.kit import PRIVATE_FILE, Kit
from training.errors import MessageError
from training.files import write_text
from training.privacy.secagg.keys import Identity

KNOWN = "hospitals.json"  # in a kit's private folder: fingerprints by name
ROOT = "rootCA.pem"


@dataclass(frozen=True)
class KnownHospitals:
    """The hospitals that a node knows, and their keys; see `training.privacy.secagg.keys`.

    Attributes:
        path: the file of fingerprints.
        federation: the names in the kit's federation file.
        say: takes one line for the node's operator.
    """

    path: Path
    federation: Sequence[str]
    say: Callable[[str], None]

    def require(self, fingerprints: Mapping[str, str]) -> None:
        """Take note of the keys of those in a sum, by name.

        Raises:
            MessageError: for a hospital that is none of the federation, or has another key than before.
        """
        known = read_known(self.path)
        for name, found in fingerprints.items():
            if name not in self.federation:
                raise MessageError(
                    f"{name} is in a sum and not in federation.yaml of this kit "
                    f"({', '.join(self.federation)}). If the federation has grown, ask {name} itself for its "
                    f"key's fingerprint ({found}), and put the new federation.yaml into this kit"
                )
            if known.get(name, found) != found:
                raise MessageError(
                    f"{name} signs with the key {found}, and was known by {known[name]}. A renewed "
                    f"certificate keeps its key: ask {name} itself, not the coordinator, whether it made a "
                    f"new one; if so, take its line out of private/{KNOWN} of this kit"
                )
        new = {name: found for name, found in fingerprints.items() if name not in known}
        if new:
            write_text(self.path, json.dumps({**known, **new}, indent=2) + "\n")
            self.path.chmod(PRIVATE_FILE)
            for name, found in new.items():
                self.say(f"sums with {name} for the first time, known from now on by its key {found}")


def read_known(path: Path) -> dict[str, str]:
    """The fingerprints by name that a node knows.

    Raises:
        MessageError: they cannot be read.
    """
    try:
        found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise MessageError(f"private/{KNOWN} of this kit cannot be read; restore it") from error
    return found


def known_path(kit: Kit) -> Path:
    """The file of the hospitals that a kit's node knows."""
    return kit.private / KNOWN


def open_identity(kit: Kit, run: str, say: Callable[[str], None]) -> Identity:
    """The identity of a kit's node in a run.

    Raises:
        KitError: certificate, key or authority cannot be read.
    """
    try:
        key = serialization.load_pem_private_key(kit.key.read_bytes(), password=None)
        own = x509.load_pem_x509_certificate(kit.certificate.read_bytes())
        authority = x509.load_pem_x509_certificate((kit.path / "startup" / ROOT).read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise KitError(
            f"the certificate and key of {kit.path} cannot be read: {error}; ask for a new kit"
        ) from error
    if not isinstance(key, RSAPrivateKey):
        raise KitError(f"{kit.key} holds no RSA key; ask for a new kit")
    known = KnownHospitals(known_path(kit), kit.federation.names, say)
    return Identity(kit.facts.name, run, own, key, authority, known)
