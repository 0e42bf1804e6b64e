"""`dermfed-registry head`: the head of the chain of events, to be kept elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from registry.cli.arguments import AsJson
from registry.cli.open import open_registry
from registry.cli.output import answer

EXAMPLES = ("", "--out march.json")


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
    lines = [str(kept.head)]
    if out is not None:
        with out.open("x", encoding="utf-8") as opened:
            opened.write(f"{kept.model_dump_json(indent=2, exclude_none=True)}\n")
        lines.append(f"kept in {out}")
    answer(kept.model_dump(mode="json", exclude_none=True), "\n".join(lines), as_json)
