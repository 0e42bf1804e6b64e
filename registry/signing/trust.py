"""Reads the trusted keys; loads no cryptography where none are named."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing.pem import Trust


def trust_in(files: Sequence[Path] | None) -> "Trust | None":
    """The trust in the keys and certificates of these files; None where no file is named.

    Raises:
        KeyUnusable: a file holds no key or certificate that can be used, or the extra `sign` is missing.
    """
    if not files:
        return None
    from registry.signing.pem import read_trust

    return read_trust(files)
