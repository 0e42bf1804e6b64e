"""`dermfed-registry audit`: the chain of events, as lines that anybody can check without dermfed."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from registry.bundle.plain_text import shown
from registry.cli.open import open_registry

EXAMPLES = ("--out audit.jsonl", "--model demo > demo.jsonl")


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
    from registry.audit.log import event_line

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
