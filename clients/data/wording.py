"""How error messages list many problems."""

from collections.abc import Sequence

LISTED = 20  # how many of many problems a message spells out


def listing(problems: Sequence[str], limit: int = LISTED) -> str:
    """The first `limit` problems, one a line, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)
