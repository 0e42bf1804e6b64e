"""`dermfed-registry`: add bundles, release them under an alias, go back, and check all of it."""

import inspect
import logging
import sys
from collections.abc import Callable
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from registry.bundle.errors import BundleError
from registry.bundle.plain_text import shown
from registry.cli.archive import EXPORT_EXAMPLES, IMPORT_EXAMPLES, export_, import_
from registry.cli.audit import EXAMPLES as AUDIT_EXAMPLES
from registry.cli.audit import audit
from registry.cli.card import EXAMPLES as CARD_EXAMPLES
from registry.cli.card import card
from registry.cli.diff import EXAMPLES as DIFF_EXAMPLES
from registry.cli.diff import diff
from registry.cli.garbage import EXAMPLES as GC_EXAMPLES
from registry.cli.garbage import gc
from registry.cli.gates import (
    APPROVE_EXAMPLES,
    CHECK_EXAMPLES,
    SET_EXAMPLES,
    SHOW_EXAMPLES,
    approve,
    gates_check,
    gates_set,
    gates_show,
    refused_data,
)
from registry.cli.keys import (
    ADD_EXAMPLES,
    LIST_EXAMPLES,
    REVOKE_EXAMPLES,
    ROTATE_EXAMPLES,
    keys_add,
    keys_list,
    keys_revoke,
    keys_rotate,
)
from registry.cli.manifest import readable
from registry.cli.open import open_registry
from registry.cli.output import answer, as_data
from registry.cli.sign import EXAMPLES as SIGN_EXAMPLES
from registry.cli.sign import Trusted, sign
from registry.cli.signatures import signed_by
from registry.errors import GateRefusal, RegistryError
from registry.records import Release, Version
from registry.releases.validate_bundle import read_folder
from registry.rendering.records import (
    event_lines,
    patient_table,
    release_line,
    version_page,
    version_table,
)
from registry.rendering.table import lines_of
from registry.signing.trust import trust_in

if TYPE_CHECKING:
    from registry.registry import Registry

REFUSED, WRONG = 1, 2  # exit codes: a rule says no; wrong use or bad input
MOST_LISTED = 1000
"""Versions that `list` shows where nothing is said: more than that, nobody reads."""

app = typer.Typer(name="dermfed-registry", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
gates_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
keys_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(gates_app, name="gates", help="What a release must pass.")
app.add_typer(keys_app, name="keys", help="Keys to the service.")

_Command = TypeVar("_Command", bound=Callable[..., None])

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name, as `list` shows it.")]
Numbers = Annotated[list[int], typer.Argument(metavar="VERSION...", help="Numbers of versions.")]
To = Annotated[str, typer.Option("--to", metavar="ALIAS", help="The alias, such as staging or production.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; history keeps it.")]


def _command(under: typer.Typer, name: str, *examples: str) -> Callable[[_Command], _Command]:
    """Register a command whose help is its docstring and `examples`, each shown as it is typed."""
    group = {id(gates_app): "gates ", id(keys_app): "keys "}.get(id(under), "")

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
    as_json: AsJson = False,
) -> None:
    """Make versions of bundles, of all or of none.

    A bundle that was added before keeps its version. If its files in the store were missing or altered,
    they are put right.
    """
    bundles = [read_folder(folder) for folder in folders]
    with open_registry(context) as registry:
        added = registry.add_and_tell(bundles)
    states = ["added" if version in added.new else "was there" for version in added.versions]
    text = [version_table(added.versions, states), *(f"repaired: object {one}" for one in added.repaired)]
    answer(as_data(added), "\n".join(text), as_json)


@_command(app, "list", "", "demo --json", "demo --all")
def list_(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Of this model alone.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="However many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """List versions, of one model or of all; of very many the newest thousand, in JSON all of them."""
    with open_registry(context) as registry:
        versions = registry.versions(model, None if all_ or as_json else MOST_LISTED)
        older = registry.version_count(model) - len(versions)
    text = version_table(versions) if versions else "no version yet; add one with `dermfed-registry add`"
    more = f"\nand {older} older: --all lists them too" if older else ""
    answer(as_data(versions) if as_json else None, text + more, as_json)


@_command(app, "show", "demo", "demo --version 3", "demo --alias production --json")
def show(
    context: typer.Context,
    model: Model,
    number: Annotated[int | None, typer.Option("--version", metavar="N", help="This version alone.")] = None,
    alias: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="The release of this alias alone.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show where aliases point, and what stands behind.

    Of each version: figures by subgroup with intervals, calibration, lineage and who signed it.

    Where no alias points anywhere yet, the newest version for each subgroup is shown.
    """
    if number is not None and alias is not None:
        raise typer.BadParameter("give --version or --alias, not both")
    with open_registry(context) as registry:
        aliases = registry.aliases(model)
        if alias is not None:
            aliases = {alias: registry.require_release(model, alias)}
        versions = _shown_versions(registry, model, number, aliases)
        manifests = [registry.manifest(version) for version in versions]
        signatures = [registry.signatures(version) for version in versions]
        overridden = registry.overrides(model)
    if number is not None:
        aliases = {name: one for name, one in aliases.items() if versions[0] in one.versions}
    found = {
        "model": model,
        "aliases": {name: as_data(release) for name, release in aliases.items()},
        "overridden": {
            name: as_data(overridden[release.id])
            for name, release in aliases.items()
            if release.id in overridden
        },
        "versions": [
            {
                **as_data(version),
                "signatures": as_data(signed),
                "manifest": readable(manifest),
            }
            for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
        ],
    }
    pages = [
        f"{version_page(version, manifest)}\n{signed_by(signed)}"
        for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
    ]
    lines = [release_line(name, one, overridden.get(one.id)) for name, one in aliases.items()] or [
        f"no alias of {model} points here"
    ]
    answer(found, "\n\n".join(["\n".join(lines), *pages]), as_json)


_command(app, "card", *CARD_EXAMPLES)(card)
_command(app, "audit", *AUDIT_EXAMPLES)(audit)
_command(app, "diff", *DIFF_EXAMPLES)(diff)
_command(app, "sign", *SIGN_EXAMPLES)(sign)
_command(app, "export", *EXPORT_EXAMPLES)(export_)
_command(app, "import", *IMPORT_EXAMPLES)(import_)
_command(app, "gc", *GC_EXAMPLES)(gc)


@_command(
    app,
    "promote",
    "demo 1 2 3 4 --to production",
    "demo 5 --to production --reason 'retrained for type V'",
    "demo 5 --to production --override-gates --reason 'board decision 7, until March'",
)
def promote(
    context: typer.Context,
    model: Model,
    numbers: Numbers,
    to: To,
    reason: Reason = None,
    override_gates: Annotated[
        bool, typer.Option("--override-gates", help="Promote although a gate refuses; needs --reason.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Release versions under an alias.

    Each version takes the place of the one for the same subgroup; the others are carried over. All of them
    change at the same moment.
    The gates judge the whole release that results. To promote a personalized model, name its version; the
    release needs a version for everybody (global), named together with it or promoted before.
    """
    with open_registry(context) as registry:
        try:
            event = registry.promote(model, numbers, to=to, reason=reason, override_gates=override_gates)
        except GateRefusal as refusal:
            if as_json:
                answer(refused_data(refusal.report), "", as_json)
            raise
        release = registry.require_release(model, to)
        served = patient_table([registry.manifest(version) for version in release.versions])
    found = {"event": None if event is None else as_data(event), "release": as_data(release)}
    nothing = f"nothing to do: {release_line(to, release)}"
    answer(found, nothing if event is None else f"{event_lines(event)}\n\n{served}", as_json)


@_command(app, "rollback", "demo --alias production", "demo --alias production --reason 'too many referrals'")
def rollback(
    context: typer.Context,
    model: Model,
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias that goes back.")],
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Go back to the release before.

    The alias points to the release before the one it points to; gates are not asked. Twice goes two
    releases back. What was done stays in history, and so does this.
    """
    with open_registry(context) as registry:
        event = registry.rollback(model, alias=alias, reason=reason)
    answer({"event": as_data(event)}, event_lines(event), as_json)


@_command(app, "history", "demo", "demo --json")
def history(context: typer.Context, model: Model, as_json: AsJson = False) -> None:
    """Tell what was done to a model, and why.

    The oldest first: when, by whom, why, and what the gates said.
    """
    with open_registry(context) as registry:
        events = registry.history(model)
    answer(as_data(events), "\n".join(event_lines(event) for event in events), as_json)


@_command(app, "verify", "", "--trust board.pub --trust vendor.pem", "--json")
def verify(context: typer.Context, trust: Trusted = None, as_json: AsJson = False) -> None:
    """Check the database and every file in the store.

    Also that history and aliases agree, and that signatures are of the versions they are kept for. With
    --trust also whose they are: a forged one is named, and one of nobody who is trusted. Exit code 1 if
    anything is wrong; nothing is changed.
    """
    with open_registry(context) as registry:
        problems = registry.verify(trust_in(trust))
        versions = len(registry.versions())
    lines = [f"{problem.about}: {problem.text}" for problem in problems]
    found = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "nothing wrong"
    answer({"problems": as_data(problems)}, lines_of([*lines, f"{versions} versions, {found}"]), as_json)
    if problems:
        raise typer.Exit(REFUSED)


_command(gates_app, "set", *SET_EXAMPLES)(gates_set)
_command(gates_app, "show", *SHOW_EXAMPLES)(gates_show)
_command(gates_app, "check", *CHECK_EXAMPLES)(gates_check)
_command(app, "approve", *APPROVE_EXAMPLES)(approve)


@_command(app, "upgrade", "", "--json")
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Change the tables of an older dermfed.

    Copy the database's file before.
    """
    from registry.registry import upgrade as upgrade_database

    before, after = upgrade_database(context.obj[0])
    text = f"schema {after} already" if before == after else f"schema {before or 'none'} -> {after}"
    answer({"before": before, "after": after}, text, as_json)


_command(keys_app, "add", *ADD_EXAMPLES)(keys_add)
_command(keys_app, "list", *LIST_EXAMPLES)(keys_list)
_command(keys_app, "rotate", *ROTATE_EXAMPLES)(keys_rotate)
_command(keys_app, "revoke", *REVOKE_EXAMPLES)(keys_revoke)


def main() -> None:
    """The console script; errors that a user can mend are told in a line and an exit code."""
    logging.getLogger("registry").addHandler(logging.NullHandler())  # commands say themselves what they did
    try:
        app()
    except RegistryError as error:
        _fail(error, error.exit_code)
    except (BundleError, OSError) as error:
        _fail(error, WRONG)


def _shown_versions(
    registry: "Registry", model: str, number: int | None, aliases: dict[str, Release]
) -> list[Version]:
    if number is not None:
        return [registry.version(model, number)]
    if released := {one.number: one for release in aliases.values() for one in release.versions}:
        return [released[key] for key in sorted(released)]
    return list({one.subgroup.name: one for one in registry.versions(model)}.values())


def _fail(error: Exception, code: int) -> None:
    print(f"{type(error).__name__}: {shown(' '.join(str(error).split()))}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
