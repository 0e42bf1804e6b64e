"""`registry.json`, the file at the root of a store that names the registry whose objects lie there.

Two databases on one store would each take the other's objects for garbage. So a store names one registry, by
the id that its database holds too, and is written once: `registry.store.ownership` says when.
"""

import json
import re
from typing import Final

from registry.errors import StoreError

OWNER_FILE: Final = "registry.json"

MOST_BYTES: Final = 4096
"""What is read of the file: it has less than a hundred."""

_IDENTITY = re.compile(r"[0-9a-f]{32}")


def owner_text(identity: str) -> bytes:
    """The content of `registry.json` for a registry of this id."""
    return json.dumps({"format": 1, "registry": identity}).encode() + b"\n"


def read_owner(content: bytes, location: str) -> str:
    """The id in the content of a store's `registry.json`.

    Raises:
        StoreError: it names none.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        record = None
    identity = record.get("registry") if isinstance(record, dict) else None
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise StoreError(
            f"{OWNER_FILE} of the store {location} does not name a registry; restore it from a copy, or "
            "remove it if you know that no other database uses the store: it is written anew"
        )
    return identity
