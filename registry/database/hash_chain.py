"""The hash chain of events: each holds the hash of the one before, so that none can change unnoticed.

An event's hash is sha256 of all else that is stored of it, as JSON: sorted keys, no spaces, UTF-8, times
as the text that is stored. The first event follows `GENESIS`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

GENESIS: Final = "sha256:" + 64 * "0"
"""The hash that the first event follows."""


def canonical_json(facts: Mapping[str, Any]) -> bytes:
    """The canonical JSON of these facts: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def event_hash(facts: Mapping[str, Any]) -> str:
    """The hash of an event, over all its columns but `hash`."""
    hashed = {name: fact for name, fact in facts.items() if name != "hash"}
    return f"sha256:{hashlib.sha256(canonical_json(hashed)).hexdigest()}"
