"""The progress of a run at this moment, in one line."""

from collections.abc import Mapping
from typing import Any

MAX_NAMES = 8  # names in one list


def status_line(progress: Mapping[str, Any]) -> str:
    """The question under way: who answered, who has not yet, who is away; empty between two questions.

    Args:
        progress: what the coordinator reports of the run.
    """
    pending, away = progress.get("pending", ()), progress.get("away", {})
    if not progress.get("asking") or not pending:
        return ""
    answered = progress.get("answered", ())
    parts = [f"{progress['asking']}: {len(answered)} of {len(answered) + len(pending)} answered"]
    here = [name for name in pending if name not in away]
    if here:
        parts.append(f"{progress.get('seconds', 0):.0f} s, not yet {names(here)}")
    if away:
        parts.append(f"away {names(list(away))}")
    return "; ".join(parts)


def names(clients: list[str]) -> str:
    """As many names as fit on a line."""
    more = f" and {len(clients) - MAX_NAMES} more" if len(clients) > MAX_NAMES else ""
    return ", ".join(clients[:MAX_NAMES]) + more
