"""`dermfed-registry list`, `show`, `history` and `diff`: what there is, what answers, and what was done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.bundle.manifest import UNSIGNED, BundleManifest
from registry.cli.bundles import readable
from registry.cli.common import AsJson, Model, answer, as_data, open_registry
from registry.cli.releases import canary_data
from registry.errors import RegistryError
from registry.gates.gate_set import LetThrough, all_let_through
from registry.records import Release, Version, Withdrawal, moment
from registry.signing.attestation import check_attestation
from registry.views.card import Entry, entry_json
from registry.views.card_page import version_in_short
from registry.views.changes import difference_text
from registry.views.records import canary_line, event_lines, release_line, stopped_line, version_table
from registry.views.tables import Section, draw, lines_of, printable

if TYPE_CHECKING:
    from registry.registry import Registry
    from registry.releases.labels import Note
    from registry.signing.versions import Signature

MOST_LISTED = 1000
"""Versions that `list` shows where nothing is said: more than that, nobody reads."""

LIST_EXAMPLES = ("", "demo --json", "demo --all")
SHOW_EXAMPLES = ("demo", "demo --version 3", "demo --alias production --json")
HISTORY_EXAMPLES = ("demo", "demo --json")
EXAMPLES = ("demo 1 5", "demo 1 5 --json")


def list_(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Of this model alone.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="However many there are.")] = False,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Those that have this tag alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """List versions, of one model or of all; of very many the newest thousand, in JSON all of them."""
    with open_registry(context) as registry:
        tags = registry.tags(model)
        versions = registry.versions(model, None if all_ or as_json or tag else MOST_LISTED)
        older = registry.version_count(model) - len(versions)
        if tag is not None:
            versions = tuple(one for one in versions if tag in tags.get((one.model, one.number), ()))
        withdrawn = {(one.model, one.number): str(one) for one in registry.withdrawals(model)}
        canaries = _in_canaries(registry, [model] if model else sorted({one.model for one in versions}))
        place = registry.place
    keys = [(one.model, one.number) for one in versions]
    if as_json:
        found = [
            {
                **data,
                **_marks(withdrawn.get(key, ""), tags.get(key, ())),
                **({"canary": canaries[key]} if key in canaries else {}),
            }
            for data, key in zip(as_data(versions), keys, strict=True)
        ]
        answer(found, "", as_json)
        return
    text = version_table(
        versions,
        tags=[", ".join(tags.get(key, ())) for key in keys],
        state=[withdrawn.get(key) or canaries.get(key, "") for key in keys],
    )
    if not versions:
        text = printable(
            f"no version yet in {place}; add one with `dermfed-registry add`, or name another --url"
            if tag is None
            else f"no version has the tag {tag!r}"
        )
    more = f"\nand {older} older: --all lists them too" if older else ""
    answer(None, text + more, as_json)


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
        canaries = {name: one for name, one in registry.canaries(model).items() if name in aliases}
        released = [*aliases.values(), *(one.release for one in canaries.values())]
        versions = _shown_versions(registry, model, number, released)
        if number is not None:
            aliases = {name: one for name, one in aliases.items() if versions[0] in one.versions}
            canaries = {name: one for name, one in canaries.items() if versions[0] in one.release.versions}
        shown = _shown(registry, model, versions)
        overridden = registry.overrides(model, [release.id for release in aliases.values()])
        passed = {name: _passed(registry, model, name) for name in aliases}
        stopped = registry.stopped(model) if alias is None and number is None else {}
    if as_json:
        found = {
            "model": model,
            "aliases": {name: as_data(release) for name, release in aliases.items()},
            "overridden": {
                name: as_data(overridden[release.id])
                for name, release in aliases.items()
                if release.id in overridden
            },
            "gates": {name: as_data(passed[name]) for name in aliases},
            **({"stopped": {name: as_data(one) for name, one in stopped.items()}} if stopped else {}),
            **({"canaries": {name: canary_data(one) for name, one in canaries.items()}} if canaries else {}),
            "versions": [one.data() for one in shown],
        }
        answer(found, "", as_json)
        return
    lines = [
        "\n".join([release_line(name, one, overridden.get(one.id)), *passed[name].lines()])
        for name, one in aliases.items()
    ]
    lines += [canary_line(name, one) for name, one in canaries.items()]
    lines += [stopped_line(name, event) for name, event in stopped.items()]
    lines = lines or [f"no alias of {model} points here"]
    answer(None, "\n\n".join(["\n".join(lines), *(draw(one.section()) for one in shown)]), as_json)


def history(context: typer.Context, model: Model, as_json: AsJson = False) -> None:
    """Tell what was done to a model, and why.

    The oldest first: when, by whom, why, what the gates said, and which gates were asked where others are
    now.
    """
    with open_registry(context) as registry:
        events = registry.history(model)
        forged = registry.forged(events)
    found = all_let_through(events)
    lines = []
    for event in events:
        lines.append(event_lines(event, forged))
        if event.id in found:
            lines.append(lines_of([f"    {found[event.id].sentence}"]))
    answer(as_data(events), "\n".join(lines), as_json)


def diff(
    context: typer.Context,
    model: Model,
    before: Annotated[int, typer.Argument(metavar="A", help="The number of one version.")],
    after: Annotated[int, typer.Argument(metavar="B", help="The number of the other.")],
    as_json: AsJson = False,
) -> None:
    """Tell what changed from version A to version B.

    What they come from (job, recipe, seed, data, code, parent), what they answer with (labels, picture rule,
    temperature, thresholds, file), and test figures by subgroup with their intervals, the difference, and
    whether the intervals overlap. That they overlap does not prove that the versions are alike.
    """
    with open_registry(context) as registry:
        found = registry.diff(model, before, after)
    answer(as_data(found), difference_text(found), as_json)


def _in_canaries(registry: "Registry", models: Sequence[str]) -> dict[tuple[str, int], str]:
    """What versions answer as canaries alone, by model and number."""
    found = {}
    for model in models:
        running = {one.number for release in registry.aliases(model).values() for one in release.versions}
        for alias, canary in registry.canaries(model).items():
            for one in canary.release.versions:
                if one.number not in running:
                    found[model, one.number] = f"canary of {alias}: {canary.title}"
    return found


def _marks(withdrawn: str, tags: Sequence[str], notes: Sequence[Any] = ()) -> dict[str, Any]:
    """What was done to a version, in JSON; keys of what was not done are left out."""
    marks = {"withdrawn": withdrawn, "tags": list(tags), "notes": list(notes)}
    return {name: mark for name, mark in marks.items() if mark}


@dataclass(frozen=True)
class _Shown:
    """One version and what the registry knows of it; `measured` says who has signed its metrics."""

    version: Version
    manifest: BundleManifest
    signatures: Sequence["Signature"]
    withdrawal: Withdrawal | None
    tags: Sequence[str]
    notes: Sequence["Note"]
    measured: str

    def data(self) -> dict[str, Any]:
        """For programs; keys of what there is not are left out."""
        withdrawn = "" if self.withdrawal is None else str(self.withdrawal)
        figures = {}
        if self.manifest.attestation is not None:
            figures["figures"] = {
                "measured_by": self.manifest.attestation.fingerprint,
                "said": self.measured,
            }
        return {
            **as_data(self.version),
            **_marks(withdrawn, self.tags, as_data(list(self.notes))),
            "signatures": as_data(self.signatures),
            **figures,
            "manifest": readable(self.manifest),
        }

    def section(self) -> Section:
        """For people."""
        signed = [("Signed", f"{moment(one.created)} by {one.identity}") for one in self.signatures]
        more = [
            *(signed or [("Signed", "by nobody")]),
            *([("Tags", ", ".join(self.tags))] if self.tags else []),
            *(("Note", f"{moment(one.time)} by {one.actor}: {one.text}") for one in self.notes),
        ]
        card = entry_json(Entry.of(self.version, self.manifest, self.withdrawal))
        return version_in_short(card, self.measured, more)


def _shown(registry: "Registry", model: str, versions: Sequence[Version]) -> list[_Shown]:
    withdrawn = {one.number: one for one in registry.withdrawals(model)}
    tags, notes = registry.tags(model), registry.notes(model)
    names = {one.fingerprint: one.name for one in registry.people() if one.revoked is None}
    manifests = {version: registry.manifest(version) for version in versions}
    return [
        _Shown(
            version,
            manifest,
            registry.signatures(version),
            withdrawn.get(version.number),
            tags.get((model, version.number), ()),
            [note for note in notes if note.number == version.number],
            _measured(manifest, names),
        )
        for version, manifest in manifests.items()
    ]


def _measured(manifest: BundleManifest, names: Mapping[str, str]) -> str:
    """Who has measured and signed the metrics, by the name of the key where the registry knows any."""
    if manifest.attestation is None:
        return UNSIGNED
    key = manifest.attestation.fingerprint
    if check_attestation(manifest) == "forged":
        return f"forged: not signed by {key}, which the bundle names; do not use this version"
    if key in names:
        return f"measured and signed by {names[key]} ({key})"
    return f"signed by an unknown key, {key}" if names else f"measured and signed by {key}"


@dataclass(frozen=True)
class _Passed:
    """How the release of an alias passed the gates, and what those of today say of it.

    Attributes:
        let_through: by which set, and which is in force now; None where no event tells.
        refused_today: the gates that refuse it today; None where they cannot be asked.
        why: why they cannot be asked.
    """

    let_through: LetThrough | None
    refused_today: tuple[str, ...] | None
    why: str = ""

    def lines(self) -> list[str]:
        """Lines below that of the release."""
        found = [] if self.let_through is None else [f"  {self.let_through.sentence}"]
        if self.refused_today is None:
            found.append(f"  what today's gates say of it is not known: {self.why}")
        elif self.refused_today:
            found.append(f"  TODAY'S GATES WOULD REFUSE IT: {', '.join(self.refused_today)}")
        else:
            found.append("  today's gates would let it through")
        return [lines_of([line]) for line in found]


def _passed(registry: "Registry", model: str, alias: str) -> _Passed:
    found = registry.let_through(model, alias)
    try:
        report = registry.judge_again(model, alias=alias)
    except RegistryError as error:
        return _Passed(found, None, str(error))
    return _Passed(found, tuple(one.gate for one in report.results if one.verdict == "refused"))


def _shown_versions(
    registry: "Registry", model: str, number: int | None, releases: Sequence[Release]
) -> list[Version]:
    if number is not None:
        return [registry.version(model, number)]
    if released := {one.number: one for release in releases for one in release.versions}:
        return [released[key] for key in sorted(released)]
    return list({one.subgroup.name: one for one in registry.versions(model)}.values())
