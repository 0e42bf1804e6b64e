"""Whom somebody named to be trusted; nothing of cryptography is loaded where nobody is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.signing.pem import Trust


def trust_in(files: Sequence[Path] | None) -> "Trust | None":
    """Whose signatures count, if anybody named whom to trust.

    Raises:
        KeyUnusable: a file holds no key or certificate that can be used, or the extra `sign` is missing.
    """
    if not files:
        return None
    from registry.signing.pem import read_trust

    return read_trust(files)
