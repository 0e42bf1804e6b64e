"""Listing many problems in an error message, each on a line of its own whatever the names in it hold."""

from collections.abc import Mapping, Sequence

from registry.bundle.text import on_one_line

LISTED = 20  # how many of many problems a message spells out


def listing(problems: Sequence[str]) -> str:
    """The first `LISTED` problems, one per line, and how many more there are."""
    lines = [f"  {on_one_line(problem)}" for problem in problems[:LISTED]]
    if len(problems) > LISTED:
        lines.append(f"  ... and {len(problems) - LISTED} more")
    return "\n".join(lines)


def listing_by_cause(causes: Mapping[str, Sequence[str]]) -> str:
    """By cause, with how many there are of it: the first `LISTED` problems, and how many more there are."""
    return "\n".join(
        f"{len(problems)}: {on_one_line(cause)}\n{listing(problems)}" for cause, problems in causes.items()
    )
