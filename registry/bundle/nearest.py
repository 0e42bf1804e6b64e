"""Hints for misspelt names."""

import difflib
from collections.abc import Sequence


def nearest(name: str, valid: Sequence[str]) -> str:
    """The hint for a misspelt name: the closest valid one, if any is close, and all valid ones."""
    close = difflib.get_close_matches(name, valid, n=1)
    allowed = ", ".join(valid) or "none"
    if close:
        return f"did you mean `{close[0]}`? valid: {allowed}"
    return f"valid: {allowed}"
