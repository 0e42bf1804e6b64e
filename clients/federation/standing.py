"""Where a run stands at this moment, in one line."""

from collections.abc import Mapping
from typing import Any

MOST = 8  # names that are told


def standing(told: Mapping[str, Any]) -> str:
    """What is asked, who has answered, who has not yet, and who is away; empty between two questions.

    Args:
        told: what the coordinator tells of itself.
    """
    pending, away = told.get("pending", ()), told.get("away", {})
    if not told.get("asking") or not pending:
        return ""
    answered = told.get("answered", ())
    parts = [f"{told['asking']}: {len(answered)} of {len(answered) + len(pending)} answered"]
    here = [name for name in pending if name not in away]
    if here:
        parts.append(f"{told.get('seconds', 0):.0f} s, not yet {names(here)}")
    if away:
        parts.append(f"away {names(list(away))}")
    return "; ".join(parts)


def names(clients: list[str]) -> str:
    """So many names as fit on a line."""
    more = f" and {len(clients) - MOST} more" if len(clients) > MOST else ""
    return ", ".join(clients[:MOST]) + more
