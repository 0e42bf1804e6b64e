"""`dermfed-registry`: add bundles, release them under an alias, go back, and check all of it."""

import inspect
from collections.abc import Callable
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from registry.bundle.text import shown
from registry.cli.audit import AUDIT_EXAMPLES, HEAD_EXAMPLES, VERIFY_EXAMPLES, audit, gc, head, verify
from registry.cli.audit import EXAMPLES as GC_EXAMPLES
from registry.cli.bundles import (
    CARD_EXAMPLES,
    EXPORT_EXAMPLES,
    FETCH_EXAMPLES,
    IMPORT_EXAMPLES,
    card,
    export_,
    fetch,
    import_,
    sign,
)
from registry.cli.bundles import EXAMPLES as SIGN_EXAMPLES
from registry.cli.common import AsJson, Key, answer, as_data, open_signing, run
from registry.cli.gates import (
    APPROVE_EXAMPLES,
    CHECK_EXAMPLES,
    GATES_APPROVE_EXAMPLES,
    GATES_SHOW_EXAMPLES,
    SET_EXAMPLES,
    approve,
    gates_approve,
    gates_check,
    gates_set,
    gates_show,
)
from registry.cli.outcomes import EXAMPLES as FIELD_EXAMPLES
from registry.cli.outcomes import field
from registry.cli.people import ADD_EXAMPLES as PERSON_EXAMPLES
from registry.cli.people import APPROVE_EXAMPLES as APPROVE_PERSON_EXAMPLES
from registry.cli.people import (
    KEYS_ADD_EXAMPLES,
    KEYS_LIST_EXAMPLES,
    KEYS_REVOKE_EXAMPLES,
    NEW_KEY_EXAMPLES,
    ROTATE_EXAMPLES,
    keys_add,
    keys_list,
    keys_revoke,
    keys_rotate,
    people_add,
    people_approve,
    people_list,
    people_new_key,
    people_revoke,
)
from registry.cli.people import LIST_EXAMPLES as PEOPLE_EXAMPLES
from registry.cli.people import REVOKE_EXAMPLES as REVOKE_PERSON_EXAMPLES
from registry.cli.releases import (
    COMPARE_EXAMPLES,
    FIND_EXAMPLES,
    NOTE_EXAMPLES,
    PROMOTE_EXAMPLES,
    ROLLBACK_EXAMPLES,
    STOP_EXAMPLES,
    TAG_EXAMPLES,
    UNTAG_EXAMPLES,
    WITHDRAW_EXAMPLES,
    canary_end,
    compare,
    find,
    note,
    promote,
    rollback,
    stop,
    tag,
    untag,
    withdraw,
)
from registry.cli.releases import END_EXAMPLES as CANARY_END_EXAMPLES
from registry.cli.show import EXAMPLES as DIFF_EXAMPLES
from registry.cli.show import HISTORY_EXAMPLES, LIST_EXAMPLES, SHOW_EXAMPLES, diff, history, list_, show
from registry.views.records import version_table

app = typer.Typer(name="dermfed-registry", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
canary_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
gates_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
keys_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
people_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(canary_app, name="canary", help="A release that answers a share beside another.")
app.add_typer(gates_app, name="gates", help="What a release must pass.")
app.add_typer(keys_app, name="keys", help="Keys to the service.")
app.add_typer(people_app, name="people", help="Who may do what, by their keys.")

_Command = TypeVar("_Command", bound=Callable[..., None])


def _command(under: typer.Typer, name: str, *examples: str) -> Callable[[_Command], _Command]:
    """Register a command whose help is its docstring and `examples`, each shown as it is typed."""
    groups = {
        "canary ": canary_app,
        "gates ": gates_app,
        "keys ": keys_app,
        "people ": people_app,
    }
    group = next((words for words, one in groups.items() if one is under), "")

    def register(function: _Command) -> _Command:
        what = inspect.cleandoc(function.__doc__ or "")
        lines = "\n".join(f"  dermfed-registry {group}{name} {example}".rstrip() for example in examples)
        return under.command(name, help=f"{what}\n\n\b\nExamples:\n{lines}")(function)

    return register


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dermfed-registry {installed_version('dermfed')}")
        raise typer.Exit


@app.callback()
def dermfed_registry(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The database, sqlite:///path/registry.db or postgresql://user@host/name. By default "
            "DERMFED_REGISTRY_URL or your own.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="The models: a folder, or an address such as s3://bucket/models. By default DERMFED_STORE "
            "or your own.",
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Versions of models, which of them answer, and who decided so.

    \b
    From a training run to production, with a model for everybody and personalized ones:
      dermfed-registry add runs/first/bundles/*
      dermfed-registry list
      dermfed-registry gates check demo 1 2 3 4 --to production
      dermfed-registry promote demo 1 2 3 4 --to production --reason "first release"
      dermfed-registry show demo
    Later, a better model for one subgroup, version 5; the other versions stay as they are:
      dermfed-registry promote demo 5 --to production
    And back:
      dermfed-registry rollback demo --alias production --reason "complaints from the ward"

    Bundles become versions, numbered for each model. A release is one version for everybody and at most
    one for each subgroup of skin tones; an alias such as production points to one release.

    Exit codes: 0 done; 1 refused (a gate or another rule says no, or verify found something); 2 wrong use
    or bad input.
    """  # noqa: D301 - \b keeps the lines of the examples
    context.obj = (url, store)


@_command(app, "add", "runs/first/bundles/*", "bundles/global bundles/V --json")
def add(
    context: typer.Context,
    folders: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE_DIR...", help="Folders with model.onnx and bundle.json.")
    ],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make versions of bundles, of all or of none.

    A bundle that was added before keeps its version. If its files in the store were missing or altered,
    they are put right.
    """
    with open_signing(context, key) as registry:
        added = registry.add_and_report(folders)
    states = ["added" if version in added.new else "was there" for version in added.versions]
    text = [
        version_table(added.versions, state=states),
        *(f"repaired: object {one}" for one in added.repaired),
    ]
    text += [shown(f"note: {one}") for one in added.warnings]
    answer(as_data(added), "\n".join(text), as_json)


_command(app, "list", *LIST_EXAMPLES)(list_)
_command(app, "show", *SHOW_EXAMPLES)(show)
_command(app, "card", *CARD_EXAMPLES)(card)
_command(app, "audit", *AUDIT_EXAMPLES)(audit)
_command(app, "diff", *DIFF_EXAMPLES)(diff)
_command(app, "sign", *SIGN_EXAMPLES)(sign)
_command(app, "export", *EXPORT_EXAMPLES)(export_)
_command(app, "import", *IMPORT_EXAMPLES)(import_)
_command(app, "fetch", *FETCH_EXAMPLES)(fetch)
_command(app, "field", *FIELD_EXAMPLES)(field)
_command(app, "tag", *TAG_EXAMPLES)(tag)
_command(app, "untag", *UNTAG_EXAMPLES)(untag)
_command(app, "note", *NOTE_EXAMPLES)(note)
_command(app, "find", *FIND_EXAMPLES)(find)
_command(app, "gc", *GC_EXAMPLES)(gc)
_command(app, "compare", *COMPARE_EXAMPLES)(compare)
_command(app, "promote", *PROMOTE_EXAMPLES)(promote)
_command(app, "rollback", *ROLLBACK_EXAMPLES)(rollback)
_command(app, "stop", *STOP_EXAMPLES)(stop)
_command(app, "withdraw", *WITHDRAW_EXAMPLES)(withdraw)
_command(app, "history", *HISTORY_EXAMPLES)(history)


_command(app, "verify", *VERIFY_EXAMPLES)(verify)
_command(app, "head", *HEAD_EXAMPLES)(head)
_command(canary_app, "end", *CANARY_END_EXAMPLES)(canary_end)
_command(gates_app, "set", *SET_EXAMPLES)(gates_set)
_command(gates_app, "approve", *GATES_APPROVE_EXAMPLES)(gates_approve)
_command(gates_app, "show", *GATES_SHOW_EXAMPLES)(gates_show)
_command(gates_app, "check", *CHECK_EXAMPLES)(gates_check)
_command(app, "approve", *APPROVE_EXAMPLES)(approve)


_command(keys_app, "add", *KEYS_ADD_EXAMPLES)(keys_add)
_command(keys_app, "list", *KEYS_LIST_EXAMPLES)(keys_list)
_command(keys_app, "rotate", *ROTATE_EXAMPLES)(keys_rotate)
_command(keys_app, "revoke", *KEYS_REVOKE_EXAMPLES)(keys_revoke)
_command(people_app, "new-key", *NEW_KEY_EXAMPLES)(people_new_key)
_command(people_app, "add", *PERSON_EXAMPLES)(people_add)
_command(people_app, "approve", *APPROVE_PERSON_EXAMPLES)(people_approve)
_command(people_app, "list", *PEOPLE_EXAMPLES)(people_list)
_command(people_app, "revoke", *REVOKE_PERSON_EXAMPLES)(people_revoke)


def main() -> None:
    """The console script; errors that a user can mend are told in a line and an exit code."""
    run(app)


if __name__ == "__main__":
    main()
