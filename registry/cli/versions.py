"""`dermfed-registry` on versions: add, list, show, compare and fetch them; cards, tags, notes and history."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter

from registry.attestation import check_attestation
from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, read_bundle
from registry.bundle.manifest import UNSIGNED, BundleManifest
from registry.bundle.text import on_one_line
from registry.cli.common import (
    Call,
    Model,
    Number,
    OneAlias,
    OneVersion,
    Out,
    argument,
    as_data,
    canary_data,
    command,
    flag,
    option,
)
from registry.errors import InvalidName, RegistryError
from registry.gates.gate_set import all_let_through
from registry.names import check_name
from registry.records import PRODUCTION, SEARCHED, Version, moment
from registry.views.card import Entry, entry_json, release_card
from registry.views.card_page import card_page, version_in_short
from registry.views.changes import difference_text
from registry.views.records import canary_line, event_lines, release_line, stopped_line, version_table
from registry.views.tables import columns, draw, lines_of

if TYPE_CHECKING:
    from registry.registry import Registry

MOST_LISTED = 1000
"""Versions that `list` shows without `--all`."""

_Tags = Annotated[list[str], argument("TAG...", "Short names, such as reviewed.")]


@command("add", "runs/first/bundles/*", "bundles/global bundles/V --json", signs=True)
def add(
    call: Call,
    folders: Annotated[list[Path], argument("BUNDLE_DIR...", "Folders with model.onnx and bundle.json.")],
) -> None:
    """Make versions of bundles, of all or of none.

    A bundle that was added before keeps its version. If its files in the store were missing or altered,
    they are repaired.
    """
    with call.registry() as registry:
        added = registry.add_and_report(folders)
    states = ["added" if version in added.new else "was there" for version in added.versions]
    notes = [
        *(f"repaired: object {one}" for one in added.repaired),
        *(f"note: {one}" for one in added.warnings),
    ]
    table = version_table(added.versions, state=states)
    call.answer(as_data(added), "\n".join(filter(None, [table, lines_of(notes)])))


@command("list", "", "demo --json", "demo --all")
def list_(
    call: Call,
    model: Annotated[str | None, argument("[MODEL]", "Of this model alone.")] = None,
    all_: Annotated[bool, flag("However many there are.", "--all")] = False,
    tag: Annotated[str | None, option("TAG", "Those that have this tag alone.")] = None,
) -> None:
    """List versions, of one model or of all; of very many the newest thousand, in JSON all of them."""
    with call.registry() as registry:
        tags = registry.tags(model)
        versions = registry.versions(model, None if all_ or call.as_json or tag else MOST_LISTED)
        older = registry.version_count(model) - len(versions)
        if tag is not None:
            versions = tuple(one for one in versions if tag in tags.get((one.model, one.number), ()))
        withdrawn = {(one.model, one.number): str(one) for one in registry.withdrawals(model)}
        canaries = _in_canaries(registry, [model] if model else sorted({one.model for one in versions}))
        place = registry.place
    keys = [(one.model, one.number) for one in versions]
    if call.as_json:
        found = [
            {
                **data,
                **_marks(withdrawn=withdrawn.get(key), tags=list(tags.get(key, ()))),
                **_marks(canary=canaries.get(key)),
            }
            for data, key in zip(as_data(versions), keys, strict=True)
        ]
        call.answer(found, "")
        return
    if versions:
        text = version_table(
            versions,
            tags=[", ".join(tags.get(key, ())) for key in keys],
            state=[withdrawn.get(key) or canaries.get(key, "") for key in keys],
        )
    elif tag is None:
        text = f"no version yet in {place}; add one with `dermfed-registry add`, or name another --url"
    else:
        text = on_one_line(f"no version has the tag {tag!r}")
    call.answer(None, text + (f"\nand {older} older: --all lists them too" if older else ""))


@command("show", "demo", "demo --version 3", "demo --alias production --json")
def show(call: Call, model: Model, number: OneVersion = None, alias: OneAlias = None) -> None:
    """Show where aliases point, and what their versions are.

    Of each version: metrics by subgroup with intervals, calibration, lineage and who signed it.

    Where no alias points anywhere yet, the newest version for each subgroup is shown.
    """
    _one_of(number, alias)
    with call.registry() as registry:
        aliases = registry.aliases(model)
        if alias is not None:
            aliases = {alias: registry.require_release(model, alias)}
        canaries = {name: one for name, one in registry.canaries(model).items() if name in aliases}
        if number is not None:
            versions = [registry.version(model, number)]
            aliases = {name: one for name, one in aliases.items() if versions[0] in one.versions}
            canaries = {name: one for name, one in canaries.items() if versions[0] in one.release.versions}
        elif released := [*aliases.values(), *(one.release for one in canaries.values())]:
            by_number = {one.number: one for release in released for one in release.versions}
            versions = [by_number[each] for each in sorted(by_number)]
        else:
            versions = list({one.subgroup.name: one for one in registry.versions(model)}.values())
        shown = _described(registry, model, versions)
        overridden = registry.overrides(model, [release.id for release in aliases.values()])
        gates = {name: _passed_gates(registry, model, name) for name in aliases}
        stopped = registry.stopped(model) if alias is None and number is None else {}
        prevalence = {name: registry.prevalence(one) for name, one in aliases.items()}
    overridden_by = {name: overridden[one.id] for name, one in aliases.items() if one.id in overridden}
    data = {
        "model": model,
        "aliases": as_data(aliases),
        "overridden": as_data(overridden_by),
        "gates": {name: found for name, (found, _) in gates.items()},
        **_marks(
            stopped=as_data(stopped),
            canaries={name: canary_data(one) for name, one in canaries.items()},
            prevalence={name: stated for name, stated in prevalence.items() if stated},
        ),
        "versions": [found for found, _ in shown],
    }
    lines = [
        *(
            "\n".join([release_line(name, one, overridden_by.get(name), prevalence[name]), gates[name][1]])
            for name, one in aliases.items()
        ),
        *(canary_line(name, one) for name, one in canaries.items()),
        *(stopped_line(name, event) for name, event in stopped.items()),
    ]
    text = "\n".join(lines or [f"no alias of {model} points here"])
    call.answer(data, "\n\n".join([text, *(text for _, text in shown)]))


@command("history", "demo", "demo --json")
def history(call: Call, model: Model) -> None:
    """Show what was done to a model, and why.

    The oldest first: when, by whom, why, what the gates said, and which gates were asked where others are
    now.
    """
    with call.registry() as registry:
        events = registry.history(model)
        forged = registry.forged(events)
    found = all_let_through(events)
    lines = []
    for event in events:
        lines.append(event_lines(event, forged))
        if event.id in found:
            lines.append(lines_of([f"    {found[event.id].sentence}"]))
    call.answer(as_data(events), "\n".join(lines))


@command("diff", "demo 1 5", "demo 1 5 --json")
def diff(
    call: Call,
    model: Model,
    before: Annotated[int, argument("A", "The number of one version.")],
    after: Annotated[int, argument("B", "The number of the other.")],
) -> None:
    """Show what changed from version A to version B.

    What they come from (job, recipe, seed, data, code, parent), what they answer with (labels, picture rule,
    temperature, thresholds, file), and test metrics by subgroup with their intervals, the difference, and
    whether the intervals overlap. That they overlap does not prove that the versions are equal.
    """
    with call.registry() as registry:
        found = registry.diff(model, before, after)
    call.answer(as_data(found), difference_text(found))


@command(
    "card",
    "demo > card.html",
    "demo --alias staging --out card.html",
    "demo --version 3 --json",
    "./bundles/global --out card.html",
)
def card(
    call: Call,
    model: Annotated[
        str, argument("MODEL", "The model's name, or a bundle's folder such as ./bundles/global.")
    ],
    number: OneVersion = None,
    alias: Annotated[
        str | None, option("ALIAS", f"Of the release of this alias; {PRODUCTION} by default.")
    ] = None,
    out: Out = None,
) -> None:
    """Show the model card: what a model is for, how it serves each subgroup, and what is unknown.

    A page that needs nothing else, or JSON. Of a release, or of a bundle that is in no registry yet: what
    cannot be a model's name is a folder, so write ./global for the folder global.
    """
    _one_of(number, alias)
    try:
        check_name("model", model)
    except InvalidName:
        if number is not None or alias is not None:
            raise BadParameter(
                "a bundle in a folder has no versions and aliases; leave out --version and --alias"
            ) from None
        shown = release_card([Entry.of_bundle(read_bundle(Path(model)))])
    else:
        with call.registry() as registry:
            shown = _registered_card(registry, model, number, alias or PRODUCTION)
    text = json.dumps(shown, indent=2) if call.as_json else card_page(shown)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(f"{text}\n", encoding="utf-8")


@command("fetch", "demo 5 --out ./version-5")
def fetch(
    call: Call,
    model: Model,
    number: Number,
    out: Annotated[Path, option("DIR", "A folder that is not there yet.", "--out")],
) -> None:
    """Write the bundle of a version into a folder, byte for byte as it was added.

    Both files are checked against their digests before. The same bundle again changes nothing. A withdrawn
    version is written too, with a note, so that it can be examined.
    """
    with call.registry() as registry:
        version = registry.version(model, number)
        bundle = registry.fetch(model, number, out)
        withdrawn = next((str(one) for one in registry.withdrawals(model) if one.number == number), None)
    files = {MANIFEST_FILE: bundle.digest, MODEL_FILE: bundle.manifest.file.sha256}
    lines = [
        f"version {number} of {model} ({version.subgroup.name}) is in {out}",
        *(f"  {name}  {digest}" for name, digest in files.items()),
        *([] if withdrawn is None else [f"  {withdrawn}"]),
    ]
    found = {**as_data(version), "folder": str(out), "files": files, "withdrawn": withdrawn}
    call.answer(found, lines_of(lines))


@command("tag", "demo 5 reviewed", "demo 5 reviewed trial-2", signs=True)
def tag(call: Call, model: Model, number: Number, tags: _Tags) -> None:
    """Give a version tags, to find it by.

    A tag changes nothing of what answers. `list --tag` shows the versions that have one.
    """
    with call.registry() as registry:
        event = registry.tag(model, number, tags)
    call.event(event, f"version {number} of {model} has these tags")


@command("untag", "demo 5 trial-2", signs=True)
def untag(call: Call, model: Model, number: Number, tags: _Tags) -> None:
    """Take tags away from a version; history keeps that it had them."""
    with call.registry() as registry:
        call.event(registry.untag(model, number, tags))


@command("note", "demo 5 'weak on the soles of feet; see the ward\\'s list'", signs=True)
def note(
    call: Call,
    model: Model,
    number: Number,
    text: Annotated[str, argument("TEXT", "What is to be known of it.")],
) -> None:
    """Write a note on a version, which `show` and history keep for ever.

    Write nothing of a patient: history is never changed.
    """
    with call.registry() as registry:
        call.event(registry.note(model, number, text))


@command("find", "reviewed", "sha256:3f2a", "'soles of feet' --json")
def find(
    call: Call, text: Annotated[str, argument("TEXT", "A part of a name, tag or note; or a digest.")]
) -> None:
    """Find versions by names of models and subgroups, tags, notes, reasons of withdrawals, or digests.

    In any case; of digests the beginning, with or without sha256:. No bundle is opened: what is in manifests
    alone, such as recipe and clients, is not searched.
    """
    with call.registry() as registry:
        hits = registry.find(text)
    rows = [[one.model, str(one.number), one.subgroup, "; ".join(one.because)] for one in hits]
    table = (
        columns(("model", "version", "subgroup", "found in"), rows) if rows else on_one_line(f"no {text!r}")
    )
    end = f"{len(hits)} found; searched: {', '.join(SEARCHED)}"
    call.answer({"searched": SEARCHED, "found": as_data(hits)}, f"{table}\n{end}")


def _one_of(number: int | None, alias: str | None) -> None:
    if number is not None and alias is not None:
        raise BadParameter("give --version or --alias, not both")


def _marks(**marks: Any) -> dict[str, Any]:
    """What is known of a version, in JSON; keys without a value are left out."""
    return {name: mark for name, mark in marks.items() if mark}


def _in_canaries(registry: "Registry", models: Sequence[str]) -> dict[tuple[str, int], str]:
    """The canary of each version that answers in no release, by model and number."""
    found = {}
    for model in models:
        running = {one.number for release in registry.aliases(model).values() for one in release.versions}
        for alias, canary in registry.canaries(model).items():
            for one in canary.release.versions:
                if one.number not in running:
                    found[model, one.number] = f"canary of {alias}: {canary.title}"
    return found


def _described(
    registry: "Registry", model: str, versions: Sequence[Version]
) -> list[tuple[dict[str, Any], str]]:
    """Each version in JSON, without keys of what there is not, and as text."""
    withdrawals = {one.number: one for one in registry.withdrawals(model)}
    all_tags, all_notes = registry.tags(model), registry.notes(model)
    names = {one.fingerprint: one.name for one in registry.people() if one.revoked is None}
    described = []
    for version in versions:
        manifest, signatures = registry.manifest(version), registry.signatures(version)
        withdrawal, tags = withdrawals.get(version.number), all_tags.get((model, version.number), ())
        notes, measured = (
            [one for one in all_notes if one.number == version.number],
            _measured(manifest, names),
        )
        key = None if manifest.attestation is None else manifest.attestation.fingerprint
        data = {
            **as_data(version),
            **_marks(withdrawn=withdrawal and str(withdrawal), tags=list(tags), notes=as_data(notes)),
            "signatures": as_data(signatures),
            **_marks(figures=key and {"measured_by": key, "said": measured}),
            "manifest": _readable(manifest),
        }
        more = [
            *(("Signed", f"{moment(one.created)} by {one.identity}") for one in signatures),
            *([] if signatures else [("Signed", "by nobody")]),
            *([("Tags", ", ".join(tags))] if tags else []),
            *(("Note", f"{moment(one.time)} by {one.actor}: {one.text}") for one in notes),
        ]
        section = version_in_short(entry_json(Entry.of(version, manifest, withdrawal)), measured, more)
        described.append((data, draw(section)))
    return described


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


def _readable(manifest: BundleManifest) -> dict[str, Any]:
    """The manifest in JSON without histograms, packed matrices and fields that this model has no use for."""
    packed: dict[str, Any] = {"reference": True, "out_of_distribution": {"means": True, "whitening": True}}
    record = manifest.model_dump(mode="json", exclude=packed)
    unused = {name for name in ("working_point", "attestation") if record[name] is None}
    if manifest.case is None:
        unused |= {"case", "patterns"}
    return {name: value for name, value in record.items() if name not in unused}


def _passed_gates(registry: "Registry", model: str, alias: str) -> tuple[dict[str, Any], str]:
    """By which gates the release of an alias was passed and what today's say of it, in JSON and as text."""
    found = registry.let_through(model, alias)
    try:
        report = registry.judge_again(model, alias=alias)
    except RegistryError as error:
        refused, why = None, str(error)
        today = f"what today's gates say of it is not known: {why}"
    else:
        refused, why = [one.gate for one in report.results if one.verdict == "refused"], ""
        today = f"TODAY'S GATES WOULD REFUSE IT: {', '.join(refused)}"
        today = today if refused else "today's gates would let it through"
    lines = [*([] if found is None else [f"  {found.sentence}"]), f"  {today}"]
    return {"let_through": as_data(found), "refused_today": refused, "why": why}, lines_of(lines)


def _registered_card(registry: "Registry", model: str, number: int | None, alias: str) -> dict[str, Any]:
    """The card of one version, or of the release that an alias points to."""
    withdrawn = {one.number: one for one in registry.withdrawals(model)}
    alarms = [one for one in registry.alarms(model) if one.closed is None]

    def entry(version: Version) -> Entry:
        own = [str(one) for one in alarms if one.version == version.number]
        return Entry.of(version, registry.manifest(version), withdrawn.get(version.number), own)

    if number is not None:
        return release_card([entry(registry.version(model, number))])
    release = registry.require_release(model, alias)
    found, canary = registry.let_through(model, alias), registry.canaries(model).get(alias)
    beside = ""
    if canary is not None:
        does = "is shown" if canary.mirror else "answers"
        beside = f"Beside it a canary {does} {canary.title}: {canary.versions_told}"
    return release_card(
        [entry(version) for version in release.versions],
        release=release,
        alias=alias,
        let_through="" if found is None else found.sentence,
        canary=beside,
        prevalence=registry.prevalence(release),
    )
