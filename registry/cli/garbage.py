"""`dermfed-registry gc`: remove from the store what nothing refers to."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from registry.store.garbage import Collection

from registry.cli.arguments import AsJson
from registry.cli.open import Key, open_signing
from registry.cli.output import answer, as_data
from registry.errors import InvalidName
from registry.records import moment
from registry.rendering.table import columns

EXAMPLES = ("--dry-run", "", "--older-than 7d --json")

_AGE = re.compile(r"([0-9]{1,6})([smhd])", flags=re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List them and remove nothing.")] = False,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Spare what is younger, such as 90m, 24h or 7d.")
    ] = "24h",
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Remove objects from the store that no version, signature or event refers to.

    Also what killed processes left half-written. A process that adds puts its objects first, so what is
    younger than a day is spared. History tells how many objects and bytes went. A store that is another
    registry's is refused.
    """
    age = read_age(older_than)
    with open_signing(context, key) as registry:
        collection = registry.collect(older_than=age, dry_run=dry_run)
    answer({**as_data(collection), "bytes": collection.bytes}, collection_page(collection), as_json)


def read_age(text: str) -> timedelta:
    """An age such as `90m`, `24h` or `7d`.

    Raises:
        InvalidName: it is none.
    """
    if (parts := _AGE.fullmatch(text)) is None:
        raise InvalidName(
            f"--older-than {text!r} is no age; give a whole number and a unit (s, m, h or d), such as 24h"
        )
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])})


def collection_page(collection: "Collection") -> str:
    """Each file with its size and age, and what they come to."""
    done = "removed" if collection.removed else "would be removed; nothing was"
    if not collection.files:
        return "nothing to remove"
    rows = [
        [file.name, f"{file.size:,}", moment(file.written), "object" if file.digest else "unfinished"]
        for file in collection.files
    ]
    count = len(collection.files)
    total = f"{count:,} file{'s' if count > 1 else ''}, {collection.bytes:,} bytes: {done}"
    return f"{columns(('file', 'bytes', 'written', 'what'), rows)}\n{total}"
