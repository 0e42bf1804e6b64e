"""The secrets of API keys: each is shown once, and only its sha256 is stored.

A secret is 256 random bits, so one fast hash is enough: there is nothing to guess from.

A key may do what its scopes say:

- `diagnose`: send pictures and get diagnoses;
- `read`: see what is served, and its model cards;
- `operate`: see the service's metrics and the operator's view.
"""

import secrets

from registry.bundle.manifest.schema import sha256

PREFIX = "dfk"


def make_secret() -> tuple[str, str]:
    """Makes the id of a new key, 12 hex digits, and its secret `dfk_<id>_<43 characters>`."""
    key = secrets.token_hex(6)
    return key, f"{PREFIX}_{key}_{secrets.token_urlsafe(32)}"


def key_digest(secret: str) -> str:
    """The digest of a secret, which the registry stores: `sha256:` and 64 hex digits."""
    return sha256(secret.encode("utf-8", "surrogatepass"))
