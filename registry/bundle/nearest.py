"""Hints for misspelt names."""

import difflib
from collections.abc import Sequence

from registry.bundle.message import Message


def nearest(name: str, valid: Sequence[str]) -> str:
    """The hint for a misspelt name: the closest valid one, if any is close, and all valid ones."""
    close = difflib.get_close_matches(name, valid, n=1)
    allowed = ", ".join(valid) or Message("none")
    if close:
        return Message("did you mean `{close}`? valid: {allowed}", close=close[0], allowed=allowed)
    return Message("valid: {allowed}", allowed=allowed)
