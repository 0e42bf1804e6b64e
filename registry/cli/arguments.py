"""Arguments and options that several commands take, said alike."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name, as `list` shows it.")]
Number = Annotated[int, typer.Argument(metavar="VERSION", help="The version's number.")]
Numbers = Annotated[list[int], typer.Argument(metavar="VERSION...", help="Numbers of versions.")]
To = Annotated[str, typer.Option("--to", metavar="ALIAS", help="The alias, such as staging or production.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; history keeps it.")]
NeededReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; history keeps it.")]
Named = Annotated[
    list[int] | None,
    typer.Argument(metavar="VERSION...", help="Numbers of versions; none where --without is enough."),
]
Expect = Annotated[
    int | None,
    typer.Option(
        "--expect",
        metavar="RELEASE",
        min=0,
        help="Only if the alias points to this release, 0 for none; else exit code 1. By default the one "
        "that it points to when the command begins.",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="SUBGROUP",
        help="Leave out the version of this subgroup: the global one answers; may be given again.",
    ),
]


def named_or_without(numbers: list[int] | None, without: list[str] | None) -> tuple[list[int], list[str]]:
    """The versions named and the subgroups left out, of which there must be any.

    Raises:
        BadParameter: there is none of either.
    """
    if not numbers and not without:
        raise typer.BadParameter("name a VERSION, or a SUBGROUP with --without")
    return numbers or [], without or []
