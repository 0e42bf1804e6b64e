"""What commands share: options, opening the registry, answering as JSON or text, and exit codes.

Opens the registry for a command, and imports then what speaks to a database: `--help` needs none.

Runs a command: errors that a user can mend are told in a line, and in the exit code.
"""

import json
import logging
import sys
from gc import freeze
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter

from registry.bundle.errors import BundleError
from registry.bundle.text import shown
from registry.environment import OUTCOMES, PASSWORD, SIGNING_KEY, outcomes_url
from registry.errors import InvalidName, RegistryError

if TYPE_CHECKING:
    from registry.outcomes.store import OutcomeStore
    from registry.registry import Registry

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


Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"Your private key in PEM, which signs this; by default {SIGNING_KEY}. Its password is read "
        f"from {PASSWORD}.",
    ),
]

AsPromoter = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The private key of whoever will promote, whose own approval does not count; nothing is signed. "
        f"By default {SIGNING_KEY}; its password is read from {PASSWORD}.",
    ),
]


def open_registry(context: typer.Context) -> "Registry":
    """The registry that `--url` and `--store` name.

    Raises:
        RegistryError: it cannot be opened.
    """
    from registry.registry import Registry

    freeze()  # what was imported stays to the end: not for the collector to look through
    return Registry.open(*context.obj)


def open_signing(context: typer.Context, key: Path | None) -> "Registry":
    """The same, for whoever signs what they do: with this key, or that of `DERMFED_SIGNING_KEY`, if any.

    Raises:
        KeyUnusable: the file holds no private key that can be used.
        RegistryError: the registry cannot be opened.
    """
    from registry.registry import key_signatory

    signatory = key_signatory(key)
    return open_registry(context).signed_by(signatory)


def open_outcomes(url: str | None, option: str, *, create: bool) -> "OutcomeStore":
    """The database of outcomes that `url` names, or `DERMFED_OUTCOMES_URL`.

    Args:
        url: as it was given.
        option: by which option.
        create: whether one that is not there is made.

    Raises:
        InvalidName: neither names one.
        RegistryError: it cannot be opened.
    """
    from registry.outcomes.store import OutcomeStore

    named = outcomes_url(url)
    if named is None:
        raise InvalidName(
            f"no database of outcomes is named; set {OUTCOMES} to the one that the service writes to, or say "
            f"{option} sqlite:////srv/dermfed/outcomes.db"
        )
    return OutcomeStore.open(named, create=create)


REFUSED = 1
"""The exit code where the question was understood and the answer is no."""


def as_data(record: Any) -> Any:
    """A record, or a tuple or dict of them, as what JSON can hold."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def answer(data: Any, text: str, as_json: bool) -> None:
    """Print what a command found, for a program or for a person."""
    print(json.dumps(data, indent=2) if as_json else text)


WRONG = 2  # exit code: wrong use or bad input


def run(app: typer.Typer) -> None:
    """Runs the commands of an application, and ends with their exit code."""
    logging.getLogger("registry").addHandler(logging.NullHandler())  # commands say themselves what they did
    try:
        app()
    except RegistryError as error:
        _fail(error, error.exit_code)
    except BundleError as error:
        _fail(error, WRONG)
    except OSError as error:
        _fail(error, WRONG, _of_a_file(error))


def _fail(error: Exception, code: int, said: str | None = None) -> None:
    print(f"{type(error).__name__}: {shown(' '.join((said or str(error)).split()))}", file=sys.stderr)
    sys.exit(code)


def _of_a_file(error: OSError) -> str | None:
    """What the system said of a file, and what to do; nothing where it names no file."""
    if error.filename is None or error.strerror is None:
        return None
    advice = "check its name, its folder and their permissions"
    return f"{error.filename} cannot be used ({error.strerror}); {advice}"
