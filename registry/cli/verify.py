"""`dermfed-registry verify`: all that can be checked, against keys, heads and time stamps from elsewhere."""

from pathlib import Path
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
    "--head march.json --tsa-trust authority.pem",
    "--head 120:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "--json",
)

Stampers = Annotated[
    list[Path] | None,
    typer.Option(
        "--tsa-trust",
        metavar="FILE",
        help="Certificates in PEM of time stamping authorities that are trusted; may be given several times.",
    ),
]


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
    stamps: Annotated[
        list[Path] | None,
        typer.Option(
            "--stamp",
            metavar="FILE",
            help="The answer of a time stamping authority (.tsr) to the question for one of these heads.",
        ),
    ] = None,
    tsa_trust: Stampers = None,
    as_json: AsJson = False,
) -> None:
    """Check the database and every file in the store.

    Also that history and aliases agree, and that signatures are of the versions they are kept for. With
    --trust also whose they are: a forged one is named, and one of nobody who is trusted. With --head also
    that the chain of events is still the one that this head was of; with --tsa-trust also that an authority
    has stamped it. Exit code 1 if anything is wrong; nothing is changed.
    """
    from registry.audit.checkpoint import KeptHead

    if (stamps or tsa_trust) and not heads:
        raise typer.BadParameter("--stamp and --tsa-trust are about heads; name one with --head")
    kept = [KeptHead.read(one) for one in heads or ()]
    answers = {str(file): file.read_bytes() for file in stamps or ()}
    authorities = None
    if tsa_trust:
        from registry.audit.time_stamp import Authorities  # needs an extra

        authorities = Authorities.read(tsa_trust)
    with open_registry(context) as registry:
        problems = registry.verify(trust_in(trust))
        compared = registry.compare_heads(kept, authorities, answers)
        versions = registry.version_count()
    problems += tuple(one.issue for one in compared if one.issue is not None)
    lines = [f"{problem.about}: {problem.text}" for problem in problems]
    lines += [_line(one) for one in compared if one.issue is None]
    found = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "nothing wrong"
    data = {"problems": as_data(problems)}
    if compared:
        data["heads"] = [_data(one) for one in compared]
    answer(data, lines_of([*lines, f"{versions} versions, {found}"]), as_json)
    if problems:
        raise typer.Exit(REFUSED)


def _line(compared: "ComparedHead") -> str:
    line = f"the head of {compared.head.events} events: as it was kept"
    if compared.stamped is not None:
        return f"{line}, and stamped on {compared.stamped:%Y-%m-%d at %H:%M:%S} UTC"
    if compared.head.stamp is not None:
        return f"{line}; its time stamp was not checked: name the authority's certificate with --tsa-trust"
    return line


def _data(compared: "ComparedHead") -> dict[str, object]:
    return {
        "events": compared.head.events,
        "hash": compared.head.hash,
        "same": compared.issue is None,
        "stamped": None if compared.stamped is None else compared.stamped.isoformat(),
    }
