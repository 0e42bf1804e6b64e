"""Signing the test of a bundle, verifying who has, and reading the trusted keys.

Loads no cryptography where nothing is signed and no key is named, and no database.
"""

import base64
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from registry.bundle.manifest import ATTESTATION, Attestation, BundleManifest, attested
from registry.errors import KeyUnusable

if TYPE_CHECKING:
    from registry.signing_keys import Trust

logger = logging.getLogger(__name__)

Measured = Literal["signed", "forged", "not signed"]


class Attester:
    """The private key of a coordinator, which signs the figures that it measured.

    The same manifest gets the same signature (RFC 6979), so that the same job gives the same bundles.

    Attributes:
        fingerprint: sha256 of its public half.
    """

    def __init__(self, file: Path, password: str | None) -> None:
        """Reads the key, and tries it.

        Raises:
            KeyUnusable: the file holds none that can be used, the password is another, or the extra `sign` is
                missing.
        """
        from cryptography.exceptions import UnsupportedAlgorithm

        from registry.signing_keys import fingerprint, public_key_text, read_signer

        self._key = read_signer(file, None, password).key
        self._public = public_key_text(self._key.public_key())
        self.fingerprint = fingerprint(self._key.public_key())
        try:
            self._sign(b"")
        except UnsupportedAlgorithm as error:
            raise KeyUnusable(
                "this installation of cryptography cannot make signatures that are the same each time "
                "(OpenSSL 3.2 does); install the package from PyPI"
            ) from error

    def __call__(self, manifest: BundleManifest) -> BundleManifest:
        """The manifest with a signature over it; one that it had is gone."""
        signature = base64.b64encode(self._sign(attested(manifest))).decode()
        attestation = Attestation(public_key=self._public, signature=signature)
        return manifest.model_copy(update={"attestation": attestation})

    def _sign(self, payload: bytes) -> bytes:
        from registry.signing_keys import sign_plainly

        return sign_plainly(self._key, ATTESTATION, payload, deterministic=True)


def check_attestation(manifest: BundleManifest) -> Measured:
    """Whether the figures are signed by the key that the manifest holds; whose it is, others know.

    Raises:
        KeyUnusable: there is a signature, and the extra `sign` is missing.
    """
    if manifest.attestation is None:
        return "not signed"
    from registry.signing_keys import read_public_key, verify_plainly

    attestation = manifest.attestation
    try:
        key = read_public_key(attestation.public_key.encode(), "bundle.json")
    except KeyUnusable as error:
        logger.warning("a bundle of %s is signed with a key that cannot be used: %s", manifest.model, error)
        return "forged"
    valid = verify_plainly(key, ATTESTATION, attested(manifest), attestation.signed)
    return "signed" if valid else "forged"


def trust_in(files: Sequence[Path] | None) -> "Trust | None":
    """The trust in the keys and certificates of these files; None where no file is named.

    Raises:
        KeyUnusable: a file holds no key or certificate that can be used, or the extra `sign` is missing.
    """
    if not files:
        return None
    from registry.signing_keys import read_trust

    return read_trust(files)
