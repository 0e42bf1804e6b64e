"""What `show` says of figures: who has measured and signed them, and whether their counts agree.

`dermfed-registry list`, `show` and `history`: what there is, where aliases point, and what was done.

What `diff` prints for people: what changed first, then the figures that a release is judged by.

`dermfed-registry diff`: what changed between two versions.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.bundle.manifest import UNSIGNED, BundleManifest
from registry.bundle.metrics import patient
from registry.bundle.text import shown_name
from registry.cli.bundles import readable, signed_by
from registry.cli.common import AsJson, Model, answer, as_data, open_registry
from registry.cli.releases import canary_data
from registry.diff import ComparedVersion, Difference, FigureChange, FigureValue
from registry.errors import RegistryError
from registry.gates.gate_set import LetThrough, all_let_through
from registry.records import Person, Release, Version, moment
from registry.rendering import (
    Cell,
    Row,
    Table,
    canary_line,
    columns,
    event_lines,
    lines_of,
    measured,
    printable,
    release_line,
    stopped_line,
    text_of,
    version_page,
    version_table,
)
from registry.signing.versions import check_attestation

if TYPE_CHECKING:
    from registry.registry import Registry
    from registry.releases.labels import Note


def measured_text(manifest: BundleManifest, people: Sequence[Person]) -> str:
    """Who has measured and signed the figures, by name where the registry knows them."""
    if manifest.attestation is None:
        return UNSIGNED
    key = manifest.attestation.fingerprint
    if check_attestation(manifest) == "forged":
        return f"forged: not signed by {key}, which the bundle names; do not use this version"
    names = {one.fingerprint: one.name for one in people if one.revoked is None}
    if key in names:
        return f"measured and signed by {names[key]} ({key})"
    return f"signed by an unknown key, {key}" if names else f"measured and signed by {key}"


def measured_data(manifest: BundleManifest, people: Sequence[Person]) -> dict[str, Any]:
    """The same for programs, of figures that somebody has signed; nothing of others, as ever."""
    if manifest.attestation is None:
        return {}
    found = {
        "measured_by": manifest.attestation.fingerprint,
        "said": measured_text(manifest, people),
    }
    return {"figures": found}


def measured_lines(manifest: BundleManifest, people: Sequence[Person]) -> str:
    """Both as lines of a version's page."""
    return lines_of([f"  figures      {measured_text(manifest, people)}"])


MOST_LISTED = 1000
"""Versions that `list` shows where nothing is said: more than that, nobody reads."""

LIST_EXAMPLES = ("", "demo --json", "demo --all")
SHOW_EXAMPLES = ("demo", "demo --version 3", "demo --alias production --json")
HISTORY_EXAMPLES = ("demo", "demo --json")


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
        withdrawn = {(one.model, one.number): one for one in registry.withdrawals(model)}
        tried = _in_canaries(registry, [model] if model else sorted({one.model for one in versions}))
        place = registry.place
    states = [str(withdrawn.get((one.model, one.number), "")) for one in versions]
    in_canary = [tried.get((one.model, one.number), "") for one in versions]
    if as_json:
        found = [
            {
                **data,
                **_marks(state, tags.get((one.model, one.number), ())),
                **({"canary": told} if told else {}),
            }
            for data, one, state, told in zip(as_data(versions), versions, states, in_canary, strict=True)
        ]
        answer(found, "", as_json)
        return
    tagged = [", ".join(tags.get((one.model, one.number), ())) for one in versions]
    states = [state or told for state, told in zip(states, in_canary, strict=True)]
    text = version_table(versions, states if any(states) else None, tagged if any(tagged) else None)
    if not versions:
        text = printable(
            f"no version yet in {place}; add one with `dermfed-registry add`, or name another --url"
        )
        text = text if tag is None else printable(f"no version has the tag {tag!r}")
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
        manifests = [registry.manifest(version) for version in versions]
        signatures = [registry.signatures(version) for version in versions]
        overridden = registry.overrides(model, [release.id for release in aliases.values()])
        withdrawn = {one.number: one for one in registry.withdrawals(model)}
        tags, notes = registry.tags(model), registry.notes(model)
        passed = {name: _passed(registry, model, name) for name in aliases}
        stopped = registry.stopped(model) if alias is None and number is None else {}
        people = registry.people()
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
            "versions": [
                {
                    **as_data(version),
                    **_marks(
                        str(withdrawn.get(version.number, "")),
                        tags.get((model, version.number), ()),
                        [as_data(note) for note in notes if note.number == version.number],
                    ),
                    "signatures": as_data(signed),
                    **measured_data(manifest, people),
                    "manifest": readable(manifest),
                }
                for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
            ],
        }
        answer(found, "", as_json)
        return
    pages = [
        "\n".join(
            [
                version_page(version, manifest, withdrawn.get(version.number)),
                signed_by(signed),
                measured_lines(manifest, people),
                *_said(tags.get((model, version.number), ()), notes, version.number),
            ]
        )
        for version, manifest, signed in zip(versions, manifests, signatures, strict=True)
    ]
    lines = [
        "\n".join([release_line(name, one, overridden.get(one.id)), *passed[name].lines()])
        for name, one in aliases.items()
    ]
    lines += [canary_line(name, one) for name, one in canaries.items()]
    lines += [stopped_line(name, event) for name, event in stopped.items()]
    lines = lines or [f"no alias of {model} points here"]
    answer(None, "\n\n".join(["\n".join(lines), *pages]), as_json)


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


def _in_canaries(registry: "Registry", models: Sequence[str]) -> dict[tuple[str, int], str]:
    """What versions answer as canaries alone, by model and number."""
    found = {}
    for model in models:
        canaries = registry.canaries(model)
        running = {one.number for release in registry.aliases(model).values() for one in release.versions}
        for alias, canary in canaries.items():
            for one in canary.release.versions:
                if one.number not in running:
                    found[model, one.number] = f"canary of {alias}: {canary.title}"
    return found


def _marks(withdrawn: str, tags: Sequence[str], notes: Sequence[Any] = ()) -> dict[str, Any]:
    """What was done to a version, in JSON; a version to which nothing was done is told as ever."""
    marks = {"withdrawn": withdrawn, "tags": list(tags), "notes": list(notes)}
    return {name: mark for name, mark in marks.items() if mark}


def _said(tags: Sequence[str], notes: Sequence["Note"], number: int) -> list[str]:
    """Tags and notes of a version, as lines of its page."""
    lines = [f"  tags         {', '.join(tags)}"] if tags else []
    lines += [
        f"  note         {moment(note.time)} by {note.actor}: {note.text}"
        for note in notes
        if note.number == number
    ]
    return [lines_of([line]) for line in lines]


@dataclass(frozen=True)
class _Passed:
    """How the release of an alias came through the gates, and what those of today say of it.

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
        told = [] if self.let_through is None else [f"  {self.let_through.sentence}"]
        if self.refused_today is None:
            told.append(f"  what today's gates say of it is not known: {self.why}")
        elif self.refused_today:
            told.append(f"  TODAY'S GATES WOULD REFUSE IT: {', '.join(self.refused_today)}")
        else:
            told.append("  today's gates would let it through")
        return [lines_of([line]) for line in told]


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


SHOWN = (
    *patient.FIGURES,
    *patient.AT_WORKING_POINT,
    "accuracy",
    "auroc",
    "ece",
    "coverage",
    "spread",
    "worst",
)
_LONGEST = 60


def difference_text(found: Difference) -> str:
    """What changed between two versions."""
    head = f"{found.model}: {_name(found.before)} -> {_name(found.after)}"
    parents = [
        f"{_name(side)} began from version {side.parent_version}"
        for side in (found.before, found.after)
        if side.parent_version is not None
    ]
    parents += [
        f"{_name(side)} is {side.withdrawn}" for side in (found.before, found.after) if side.withdrawn
    ]
    if not found.changed:
        told = "everything but figures is the same"
    else:
        rows = [[one.what, _short(one.before), _short(one.after)] for one in found.changed]
        told = columns(("changed", f"version {found.before.version}", f"version {found.after.version}"), rows)
    return "\n\n".join([lines_of([head, *parents]), told, _figures(found)])


def _figures(found: Difference) -> str:
    rows = tuple(
        Row(
            one.subgroup or {"all": "all pictures", "fairness": "between subgroups"}[one.part],
            (
                Cell(one.figure.replace("_", " ")),
                _figure(one.before),
                _figure(one.after),
                Cell("unknown" if one.difference is None else f"{one.difference:+.3f}"),
                Cell(_overlap(one)),
            ),
        )
        for one in found.figures
        if one.figure in SHOWN
    )
    if not rows:
        return "neither version has test figures"
    header = ("of", "figure", f"version {found.before.version}", f"version {found.after.version}",
              "difference", "intervals")  # fmt: skip
    return text_of(Table("figures", "test figures of both versions", header, rows))


def _name(side: ComparedVersion) -> str:
    return f"version {side.version} ({shown_name(side.subgroup)})"


def _figure(one: FigureValue) -> Cell:
    cell = measured(one.value, one.interval)
    return cell if one.n is None else Cell(f"{cell}, n {one.n}")


def _overlap(one: FigureChange) -> str:
    return {True: "overlap", False: "apart", None: "unknown"}[one.overlap]


def _short(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith("sha256:"):
        return text[:19] + "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


EXAMPLES = ("demo 1 5", "demo 1 5 --json")


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
