"""What commands share: their registration, options, opening the registry, answers and exit codes.

    @command("tag", "demo 5 reviewed", signs=True)
    def tag(call: Call, model: Model, number: Number, tags: Tags) -> None:
        '''Give a version tags.'''
        with call.registry() as registry:
            call.event(registry.tag(model, number, tags), "it has these tags")

What speaks to a database is imported when a command opens it: `--help` needs none of it.
"""

import inspect
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from registry.records import Canary, Event, moment
from registry.views.records import event_lines

if TYPE_CHECKING:
    from registry.outcomes.store import OutcomeStore
    from registry.registry import Registry

REFUSED = 1  # exit code: the request was understood and the answer is no
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


def argument(metavar: str, help: str) -> Any:
    """What help says of an argument."""
    return typer.Argument(metavar=metavar, help=help)


def option(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    """What help says of an option with a value; without names it is called as its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def flag(help: str, *names: str) -> Any:
    """What help says of an option without a value."""
    return typer.Option(*names, help=help)


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_KEY_HELP = (
    f"Your private key in PEM, which signs this or says who you are; by default {SIGNING_KEY}. Its password "
    f"is read from {PASSWORD}."
)
_CONTEXT = _parameter("context", Context)
_KEY = _parameter("key", Annotated[Path | None, option("FILE", _KEY_HELP, "--key")], None)
_AS_JSON = _parameter("as_json", Annotated[bool, flag("Answer in JSON, for programs.", "--json")], False)


@dataclass(frozen=True)
class Call:
    """One call of a command, with the options that most commands have.

    Attributes:
        place: `--url` and `--store`.
        signs: whether the command signs, with `key` or that of `DERMFED_SIGNING_KEY`, if any.
        key: the private key's file.
        as_json: whether to answer in JSON.
    """

    place: tuple[str | None, str | None]
    signs: bool = False
    key: Path | None = None
    as_json: bool = False

    def registry(self) -> "Registry":
        """The registry that is named.

        Raises:
            KeyUnusable: the file holds no private key that can be used.
            RegistryError: the registry cannot be opened.
        """
        from registry.registry import Registry, key_signatory

        freeze()  # the collector need not look through what was imported
        signatory = key_signatory(self.key) if self.signs else None
        return Registry.open(*self.place, signatory=signatory)

    def answer(self, data: Any, text: str, *, refused: bool = False) -> None:
        """Print what the command found, for a program or for a person, and exit with 1 if refused."""
        print(json.dumps(data, indent=2) if self.as_json else text)
        if refused:
            raise typer.Exit(REFUSED)

    def event(self, event: Event | None, nothing: str = "") -> None:
        """Print the event that the command made, or that there was nothing to do."""
        text = f"nothing to do: {nothing}" if event is None else event_lines(event)
        self.answer({"event": as_data(event)}, text)


def command(
    name: str, *examples: str, signs: bool = False, json: bool = True, of: typer.Typer = app
) -> Callable[[Command], Command]:
    """Register a command, such as `gates set`, whose first parameter is a `Call`.

    Args:
        name: how it is typed.
        examples: what may follow; help shows them after the function's docstring.
        signs: whether it has the option `--key`.
        json: whether it has the option `--json`.
        of: the console script.
    """
    group, _, last = name.rpartition(" ")
    shared = [_KEY] * signs + [_AS_JSON] * json

    def register(function: Command) -> Command:
        def call(context: Context, **given: Any) -> None:
            options = {one.name: given.pop(one.name) for one in shared}
            function(Call(context.obj or (None, None), signs, **options), **given)

        _, *own = inspect.signature(function).parameters.values()
        parameters = [_CONTEXT, *(_parameter(one.name, one.annotation, one.default) for one in own), *shared]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        typed = "\n".join(f"  {of.info.name} {name} {example}".rstrip() for example in examples)
        text = f"{inspect.cleandoc(function.__doc__ or '')}\n\n\b\nExamples:\n{typed}"
        (_groups[group] if group else of).command(last, help=text)(call)
        return function

    return register


def _show_version(context: Context, asked: bool) -> None:
    if asked:
        typer.echo(f"{context.command.name} {installed_version('dermfed')}")
        raise typer.Exit


ShowVersion = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
]
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


def canary_data(canary: Canary) -> dict[str, Any]:
    """A canary in JSON, without the key by which requests are chosen."""
    data: dict[str, Any] = as_data(replace(canary, key=b""))
    del data["key"]
    return {**data, "since": moment(canary.since)}


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
