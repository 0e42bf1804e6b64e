"""What commands share: their registration, options, opening the registry, answers and exit codes.

    @command("tag", "demo 5 reviewed")
    def tag(context: Context, model: Model, number: Number, tags: Tags, key: Key = None) -> None:
        '''Give a version tags.'''
        with open_signing(context, key) as registry:
            answer_event(registry.tag(model, number, tags), False, "it has these tags")

What speaks to a database is imported when a command opens it: `--help` needs none of it.
"""

import inspect
import json
import logging
import sys
from collections.abc import Callable
from gc import freeze
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import TypeAdapter
from typer import Context

from registry.bundle.errors import BundleError
from registry.bundle.text import shown
from registry.environment import OUTCOMES, PASSWORD, SIGNING_KEY, outcomes_url
from registry.errors import InvalidName, RegistryError
from registry.records import Event
from registry.views.records import event_lines

if TYPE_CHECKING:
    from registry.outcomes.store import OutcomeStore
    from registry.registry import Registry

REFUSED = 1  # exit code: the question was understood and the answer is no
WRONG = 2  # exit code: wrong use or bad input

Command = TypeVar("Command", bound=Callable[..., None])


def program(name: str, help: str | None = None) -> typer.Typer:
    """A console script, or a group of commands."""
    return typer.Typer(
        name=name, help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


app = program("dermfed-registry")
_GROUPS = {
    "canary": "A release that answers a share of the requests.",
    "gates": "What a release must pass.",
    "keys": "Keys to the service.",
    "people": "Who may do what, by their keys.",
}
_groups = {name: program(name, text) for name, text in _GROUPS.items()}
for _group in _groups.values():
    app.add_typer(_group)


def command(name: str, *examples: str, of: typer.Typer = app) -> Callable[[Command], Command]:
    """Register a command, such as `gates set`; its help is its docstring and the examples as typed."""
    group, _, last = name.rpartition(" ")

    def register(function: Command) -> Command:
        typed = "\n".join(f"  {of.info.name} {name} {example}".rstrip() for example in examples)
        text = f"{inspect.cleandoc(function.__doc__ or '')}\n\n\b\nExamples:\n{typed}"
        return (_groups[group] if group else of).command(last, help=text)(function)

    return register


def argument(metavar: str, help: str) -> Any:
    """What help says of an argument."""
    return typer.Argument(metavar=metavar, help=help)


def option(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    """What help says of an option with a value; without names it is called as its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def flag(help: str, *names: str) -> Any:
    """What help says of an option without a value."""
    return typer.Option(*names, help=help)


def _show_version(context: Context, asked: bool) -> None:
    if asked:
        typer.echo(f"{context.command.name} {installed_version('dermfed')}")
        raise typer.Exit


ShowVersion = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
]
AsJson = Annotated[bool, flag("Answer in JSON, for programs.", "--json")]
Model = Annotated[str, argument("MODEL", "The model's name, as `list` shows it.")]
Number = Annotated[int, argument("VERSION", "The version's number.")]
Numbers = Annotated[list[int], argument("VERSION...", "Numbers of versions.")]
OneVersion = Annotated[int | None, option("N", "This version alone.", "--version")]
To = Annotated[str, option("ALIAS", "The alias, such as staging or production.", "--to")]
Alias = Annotated[str, option("ALIAS", "The alias.", "--alias")]
OneAlias = Annotated[str | None, option("ALIAS", "The release of this alias alone.", "--alias")]
Out = Annotated[Path | None, option("FILE", "Write to this file.", "--out")]
Reason = Annotated[str | None, option("TEXT", "Why; history keeps it.", "--reason")]
NeededReason = Annotated[str, option("TEXT", "Why; history keeps it.", "--reason")]
Key = Annotated[
    Path | None,
    option(
        "FILE",
        f"Your private key in PEM, which signs this; by default {SIGNING_KEY}. Its password is read "
        f"from {PASSWORD}.",
        "--key",
    ),
]


def open_registry(context: Context) -> "Registry":
    """The registry that `--url` and `--store` name.

    Raises:
        RegistryError: it cannot be opened.
    """
    from registry.registry import Registry

    freeze()  # the collector need not look through what was imported
    return Registry.open(*context.obj)


def open_signing(context: Context, key: Path | None) -> "Registry":
    """The same, signing with this key, or that of `DERMFED_SIGNING_KEY`, if any.

    Raises:
        KeyUnusable: the file holds no private key that can be used.
        RegistryError: the registry cannot be opened.
    """
    from registry.registry import key_signatory

    signatory = key_signatory(key)
    return open_registry(context).signed_by(signatory)


def open_outcomes(url: str | None, option: str) -> "OutcomeStore":
    """The database of outcomes that `url`, given by `option`, or `DERMFED_OUTCOMES_URL` names.

    Raises:
        InvalidName: neither names one.
        RegistryError: it cannot be opened.
    """
    from registry.outcomes.store import OutcomeStore

    named = outcomes_url(url)
    if named is None:
        raise InvalidName(
            f"no database of outcomes is named; set {OUTCOMES} to the one that the service writes to, or "
            f"give {option} sqlite:////srv/dermfed/outcomes.db"
        )
    return OutcomeStore.open(named, create=False)


def as_data(record: Any) -> Any:
    """A record, or a tuple or dict of them, as what JSON can hold."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def answer(data: Any, text: str, as_json: bool) -> None:
    """Print what a command found, for a program or for a person."""
    print(json.dumps(data, indent=2) if as_json else text)


def answer_event(event: Event | None, as_json: bool, nothing: str = "") -> None:
    """Print the event that a command made, or that there was nothing to do."""
    text = f"nothing to do: {nothing}" if event is None else event_lines(event)
    answer({"event": as_data(event)}, text, as_json)


def run(of: typer.Typer) -> None:
    """Run the commands of an application and exit with their code."""
    logging.getLogger("registry").addHandler(logging.NullHandler())  # commands print what they did
    try:
        of()
    except (RegistryError, BundleError) as error:
        _fail(error, str(error), error.exit_code if isinstance(error, RegistryError) else WRONG)
    except OSError as error:
        text = str(error)
        if error.filename is not None and error.strerror is not None:
            advice = "check its name, its folder and their permissions"
            text = f"{error.filename} cannot be used ({error.strerror}); {advice}"
        _fail(error, text, WRONG)


def _fail(error: Exception, text: str, code: int) -> None:
    print(f"{type(error).__name__}: {shown(' '.join(text.split()))}", file=sys.stderr)
    sys.exit(code)
