"""`dermfed-registry audit`, `head`, `verify` and `gc`: what anybody can check, and garbage collection.

`dermfed-registry audit`: the chain of events, as lines that anybody can check without dermfed.

`dermfed-registry verify`: all that can be checked, against keys and heads from elsewhere.
"""

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from registry.bundle.text import shown
from registry.cli.bundles import Trusted
from registry.cli.common import REFUSED, AsJson, Key, answer, as_data, open_registry, open_signing
from registry.errors import InvalidName
from registry.records import moment
from registry.signing.attestation import trust_in
from registry.views.tables import columns, lines_of

if TYPE_CHECKING:
    from registry.audit import ComparedHead
    from registry.store.bundles import Collected

AUDIT_EXAMPLES = ("--out audit.jsonl", "--model demo > demo.jsonl")


def audit(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Of this model alone; its events then do not follow each other."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Export the chain of events, one event a line, in JSON.

    Each line says all that was written down, the hash of the event before, and its own. Keep the last
    hash where nobody who may change the database can: it shows later that nothing was changed or removed.
    """
    from registry.audit import event_line

    with open_registry(context) as registry:
        events = registry.audit(model)
    text = b"".join(event_line(facts) for facts in events)
    if out is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    out.write_bytes(text)
    last = f", the last of hash {events[-1]['hash']}" if events else ""
    typer.echo(f"{len(events)} events in {shown(str(out))}{last}")


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


def collection_page(collection: "Collected") -> str:
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


HEAD_EXAMPLES = ("", "--out march.json")


def head(
    context: typer.Context,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this file, which must not be there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the head of the chain of events, N:HASH: how many there are, and the hash of the last.

    Keep it where nobody who may change the database can, on paper or in a file: `verify --head` tells later
    whether the chain is still the same up to there.
    """
    if out is not None and out.exists():
        raise typer.BadParameter(f"{out} is there already; a head that was kept is not written over")
    with open_registry(context) as registry:
        kept = registry.head()
    lines = [str(kept)]
    if out is not None:
        with out.open("x", encoding="utf-8") as opened:
            opened.write(f"{kept.model_dump_json(indent=2, exclude_none=True)}\n")
        lines.append(f"kept in {out}")
    answer(kept.model_dump(mode="json", exclude_none=True), "\n".join(lines), as_json)


VERIFY_EXAMPLES = (
    "",
    "--trust board.pub --trust vendor.pem",
    "--head march.json",
    "--head 120:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "--json",
)


def verify(
    context: typer.Context,
    trust: Trusted = None,
    heads: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="N:HASH|FILE",
            help="A head that was kept elsewhere, as `head` prints or writes it; may be given several times.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the database and every file in the store.

    Also that history and aliases agree, and that signatures are of the versions they are kept for. With
    --trust also whose they are: a forged one is named, and one of nobody who is trusted. With --head also
    that the chain of events is still the one that this head was of.
    Exit code 1 if anything is wrong; nothing is changed.
    """
    from registry.audit import KeptHead

    kept = [KeptHead.read(one) for one in heads or ()]
    with open_registry(context) as registry:
        problems = registry.verify(trust_in(trust))
        compared = registry.compare_heads(kept)
        versions = registry.version_count()
    problems += tuple(one.issue for one in compared if one.issue is not None)
    lines = [f"{problem.about}: {problem.text}" for problem in problems]
    lines += [
        f"the head of {one.head.events} events: as it was kept" for one in compared if one.issue is None
    ]
    found = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "nothing wrong"
    data = {"problems": as_data(problems)}
    if compared:
        data["heads"] = [_data(one) for one in compared]
    answer(data, lines_of([*lines, f"{versions} versions, {found}"]), as_json)
    if problems:
        raise typer.Exit(REFUSED)


def _data(compared: "ComparedHead") -> dict[str, object]:
    return {
        "events": compared.head.events,
        "hash": compared.head.hash,
        "same": compared.issue is None,
    }
