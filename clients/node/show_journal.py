"""What `dermfed-node journal` shows: entries of the outgoing journal, a line each, and their sum."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clients.federation.errors import JournalError
from clients.node.journal import Entry, read_journal


def chosen(
    folder: Path, *, run: str | None = None, since: str | None = None, last: int | None = None
) -> tuple[list[Entry], str]:
    """The entries that are asked for, and what is wrong with the journal; nothing where all lines follow.

    Args:
        folder: of the journal.
        run: the run's name; None for all.
        since: the day, `YYYY-MM-DD`; None for all.
        last: how many, the newest; None for all.
    """
    found: list[Entry] = []
    wrong = ""
    try:
        found.extend(
            entry
            for entry in read_journal(folder)
            if (run is None or entry.run == run) and (since is None or entry.at >= since)
        )
    except JournalError as error:
        wrong = f"{error}"
    return found if last is None else found[-last:], wrong


def lines_of(entries: Sequence[Entry]) -> Iterator[str]:
    """One line for each entry."""
    for each in entries:
        asked = [each.stage, f"round {each.round}", each.ask] if each.ask else []
        asked += [each.track] if each.ask and each.track != "global" else []
        what = f"{each.holds} ({each.tensors} tensors)" if each.tensors else each.holds
        many = f"{each.messages} messages, " if each.messages > 1 else ""
        yield ", ".join(
            [
                f"{each.at} {each.run or '-'}",
                each.kind,
                *([" ".join(asked)] if asked else []),
                what,
                f"{many}{each.bytes:,} bytes",
                each.sha256[:12],
            ]
        ).rstrip(", ")


def totals(entries: Sequence[Entry]) -> str:
    """What left in all."""
    messages = sum(each.messages for each in entries)
    return f"{messages:,} messages, {sum(each.bytes for each in entries):,} bytes left this hospital"
