"""`dermfed-registry list`, `show` and `history`: what there is, where aliases point, and what was done."""

from typing import TYPE_CHECKING, Annotated

import typer

from registry.cli.arguments import AsJson, Model
from registry.cli.manifest import readable
from registry.cli.measured import measured_data, measured_lines
from registry.cli.open import open_registry
from registry.cli.output import answer, as_data
from registry.cli.signatures import signed_by
from registry.records import Release, Version
from registry.rendering.records import event_lines, release_line, version_page, version_table

if TYPE_CHECKING:
    from registry.registry import Registry

MOST_LISTED = 1000
"""Versions that `list` shows where nothing is said: more than that, nobody reads."""

LIST_EXAMPLES = ("", "demo --json", "demo --all")
SHOW_EXAMPLES = ("demo", "demo --version 3", "demo --alias production --json")
HISTORY_EXAMPLES = ("demo", "demo --json")


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
        people = registry.people()
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
                **measured_data(manifest, people),
                "manifest": readable(manifest),
            }
            for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
        ],
    }
    pages = [
        f"{version_page(version, manifest)}\n{signed_by(signed)}\n{measured_lines(manifest, people)}"
        for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
    ]
    lines = [release_line(name, one, overridden.get(one.id)) for name, one in aliases.items()] or [
        f"no alias of {model} points here"
    ]
    answer(found, "\n\n".join(["\n".join(lines), *pages]), as_json)


def history(context: typer.Context, model: Model, as_json: AsJson = False) -> None:
    """Tell what was done to a model, and why.

    The oldest first: when, by whom, why, and what the gates said.
    """
    with open_registry(context) as registry:
        events = registry.history(model)
    answer(as_data(events), "\n".join(event_lines(event) for event in events), as_json)


def _shown_versions(
    registry: "Registry", model: str, number: int | None, aliases: dict[str, Release]
) -> list[Version]:
    if number is not None:
        return [registry.version(model, number)]
    if released := {one.number: one for release in aliases.values() for one in release.versions}:
        return [released[key] for key in sorted(released)]
    return list({one.subgroup.name: one for one in registry.versions(model)}.values())
