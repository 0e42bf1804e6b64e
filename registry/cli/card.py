"""`dermfed-registry card`: the model card of a bundle, a version or a release, for people or for programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from registry.records import Version
    from registry.registry import Registry

from registry.bundle.folder import read_bundle
from registry.card.contents import Entry, release_card
from registry.card.page import card_page
from registry.cli.arguments import AsJson
from registry.cli.open import open_registry
from registry.errors import InvalidName
from registry.names import check_name
from registry.records import PRODUCTION

EXAMPLES = (
    "demo > card.html",
    "demo --alias staging --out card.html",
    "demo --version 3 --json",
    "./bundles/global --out card.html",
)


def card(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="The model's name, or a bundle's folder such as ./bundles/global."
        ),
    ],
    number: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Of this version alone.")
    ] = None,
    alias: Annotated[
        str | None,
        typer.Option(metavar="ALIAS", help=f"Of the release of this alias; {PRODUCTION} by default."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the model card: what a model is for, how it serves each subgroup, and what is unknown.

    A page that needs nothing else, or JSON. Of a release, or of a bundle that is in no registry yet: what
    cannot be a model's name is a folder, so write ./global for the folder global.
    """
    if number is not None and alias is not None:
        raise typer.BadParameter("give --version or --alias, not both")
    if not _is_folder(model):
        with open_registry(context) as registry:
            shown = registered_card(registry, model, number, alias)
    elif number is not None or alias is not None:
        raise typer.BadParameter(f"{model} is a folder; --version and --alias are of models in the registry")
    else:
        shown = release_card([Entry.of_bundle(read_bundle(Path(model)))])
    text = json.dumps(shown, indent=2) if as_json else card_page(shown)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(f"{text}\n", encoding="utf-8")


def registered_card(
    registry: "Registry", model: str, number: int | None, alias: str | None
) -> dict[str, Any]:
    """The card of one version, or of the release that an alias points to.

    Raises:
        NotFound: there is no such model, version or alias.
        StoreError: a manifest is missing or was altered.
    """
    if number is not None:
        version = registry.version(model, number)
        withdrawal = next((one for one in registry.withdrawals(model) if one.number == number), None)
        alarms = _alarms(registry, version)
        return release_card([Entry.of(version, registry.manifest(version), withdrawal, alarms)])
    alias = alias or PRODUCTION
    release = registry.require_release(model, alias)
    entries = [
        Entry.of(version, registry.manifest(version), alarms=_alarms(registry, version))
        for version in release.versions
    ]
    found = registry.let_through(model, alias)
    told = "" if found is None else found.sentence
    canary = registry.canaries(model).get(alias)
    beside = "" if canary is None else f"Beside it a canary answers {canary.title}: {canary.versions_told}"
    return release_card(entries, release=release, alias=alias, let_through=told, canary=beside)


def _alarms(registry: "Registry", version: "Version") -> list[str]:
    """The open alarms of the field about a version."""
    return [
        str(one)
        for one in registry.alarms(version.model)
        if one.is_open and one.found.version == version.number
    ]


def _is_folder(model: str) -> bool:
    """Whether this can be no model's name, and so is a folder."""
    try:
        check_name("model", model)
    except InvalidName:
        return True
    return False
