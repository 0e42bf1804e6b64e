"""What the commands are tried with: the fixtures of the archive and of signing."""

from tests.registry.archive.conftest import file, pair, released, sender, signer
from tests.registry.signing.conftest import certificate, key, write

__all__ = ["certificate", "file", "key", "pair", "released", "sender", "signer", "write"]
