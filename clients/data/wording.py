"""How error messages list what is allowed and what came near."""

import difflib
from collections.abc import Iterable, Sequence

LISTED = 20  # how many of many problems a message spells out


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the names nearest to `name`, then all known ones."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    asked = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{asked}known: {', '.join(names) or 'none'}"


def listing(problems: Sequence[str], limit: int = LISTED) -> str:
    """The first `limit` problems, one a line, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)
