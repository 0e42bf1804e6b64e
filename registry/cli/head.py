"""`dermfed-registry head`: the head of the chain of events, to be signed, and to be kept elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from registry.cli.arguments import AsJson
from registry.cli.open import Key, open_signing
from registry.cli.output import answer
from registry.cli.verify import Stampers

EXAMPLES = (
    "",
    "--sign --out march.json",
    "--out march.json --stamp https://tsa.example.org --tsa-trust authority.pem",
    "--out march.json --query march.tsq",
)


def head(
    context: typer.Context,
    sign: Annotated[
        bool, typer.Option("--sign", help="Sign it, as an operator: history tells of it.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this file, which must not be there.")
    ] = None,
    stamp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask the time stamping authority at this address for a stamp of it; needs --out.",
        ),
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the question to an authority to this file (.tsq), and ask nobody."
        ),
    ] = None,
    tsa_trust: Stampers = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Print the head of the chain of events, N:HASH: how many there are, and the hash of the last.

    Keep it where nobody who may change the database can, on paper or in a file: `verify --head` tells later
    whether the chain is still the same up to there. An authority's time stamp tells since when it is, to
    whoever does not trust the one who kept it.
    """
    if stamp and out is None:
        raise typer.BadParameter("--stamp needs --out FILE, where the stamp is kept")
    if tsa_trust and not stamp:
        raise typer.BadParameter("--tsa-trust is about the answer of --stamp")
    for file in (out, query):
        if file is not None and file.exists():
            raise typer.BadParameter(f"{file} is there already; a head that was kept is not written over")
    authorities = None
    if stamp or query is not None:
        from registry.audit import time_stamp  # needs an extra

        authorities = time_stamp.Authorities.read(tsa_trust) if tsa_trust else None
    with open_signing(context, key) as registry:
        kept, event = registry.sign_head() if sign else (registry.head(), None)
    lines = [str(kept.head)]
    if event is not None:
        lines.append(f"signed by {event.actor}, as event {event.id}")
    if stamp or query is not None:
        from registry.audit.checkpoint import stamped_bytes

        content = stamped_bytes(kept.registry or "", kept.head)
        if stamp:
            answered = time_stamp.ask(stamp, content)
            if authorities is not None:
                time = authorities.time_of(answered, content)
                lines.append(f"stamped on {time:%Y-%m-%d at %H:%M:%S} UTC")
            kept = kept.model_copy(update={"stamp": answered})
        if query is not None:
            query.write_bytes(time_stamp.request(content).as_bytes())
            lines.append(f"the question to an authority is in {query}")
    if out is not None:
        with out.open("x", encoding="utf-8") as opened:
            opened.write(f"{kept.model_dump_json(indent=2, exclude_none=True)}\n")
        lines.append(f"kept in {out}")
    answer(kept.model_dump(mode="json", exclude_none=True), "\n".join(lines), as_json)
