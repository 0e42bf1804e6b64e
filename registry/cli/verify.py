"""`dermfed-registry verify`: all that can be checked, against keys and heads from elsewhere."""

from typing import TYPE_CHECKING, Annotated

import typer

from registry.cli.arguments import AsJson
from registry.cli.open import open_registry
from registry.cli.output import REFUSED, answer, as_data
from registry.cli.sign import Trusted
from registry.rendering.table import lines_of
from registry.signing.trust import trust_in

if TYPE_CHECKING:
    from registry.audit.checkpoint import ComparedHead

EXAMPLES = (
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
    from registry.audit.checkpoint import KeptHead

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
