"""Tables of texts, and how a terminal shows them; how a page shows them is in `card/table.html`.

What stands in a bundle, a certificate or a reason is somebody else's. What commands print goes through
`registry.bundle.text`, which spells out what would steer a terminal, and a page through it and through
Jinja's escaping.

The table to read before promoting, as text: darkest skin first, sensitivity first, losses marked.

Records as lines and columns of text: versions, releases, events, gates and keys.
"""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from registry.bundle.counts.score_bins import probability_text
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics import patient
from registry.bundle.metrics.patient import Told
from registry.bundle.text import on_one_line, shown, shown_name
from registry.gate_report import (
    Answering,
    Comparison,
    FigureChange,
    GateFinding,
    GateReport,
    GateResult,
    GateSaid,
    SubgroupChange,
    set_title,
)
from registry.gates import figures_by_subgroup
from registry.records import ROLE_FOR, ApiKey, Canary, Event, Person, Release, Version, Withdrawal, moment

printable = on_one_line  # the name under which others know it from here

LONGEST_CELL: Final = 300
"""Characters of a cell before its middle is left out."""


@dataclass(frozen=True)
class Cell:
    """One cell: what it says and, smaller, how sure that is."""

    text: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.note}" if self.note else self.text


@dataclass(frozen=True)
class Row:
    """One row: its head and its cells."""

    head: str
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table, with the caption that names it.

    Attributes:
        key: unique within the section of one bundle; part of ids in the page.
        caption: what it shows.
        header: the head of each column, that of the rows first.
        rows: each with one cell fewer than `header`.
        note: what to know when reading it.
    """

    key: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""


def text_of(table: Table) -> str:
    """Rows below their header, each column as wide as its widest entry; caption and notes are left out."""
    return columns(table.header, [[row.head, *map(str, row.cells)] for row in table.rows])


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts below their header, each column as wide as its widest entry."""
    texts = [_cells(row) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    line = "  ".join(f"{{:<{width}}}" for width in widths)
    return "\n".join(line.format(*row).rstrip() for row in texts)


def _cells(row: Sequence[str]) -> Sequence[str]:
    whole = "".join(row)
    if whole.isascii() and whole.isprintable() and len(whole) <= LONGEST_CELL:
        return row  # as most are
    return [shown(text, LONGEST_CELL) for text in row]


def lines_of(texts: Iterable[str]) -> str:
    """Texts below each other, each on one line whatever it holds."""
    return "\n".join(map(shown, texts))


WIDTH = 100
"""Columns that the text keeps to where names and numbers let it."""

_SHORT = {
    "sensitivity at the working point": "sens. at working point",
    "specificity at the working point": "spec. at working point",
}
_HEADER = ("subgroup", "", "running", "candidate", "change")


def comparison_text(found: Comparison, *, terminal: int | None = None, refusals: bool = True) -> str:
    """The comparison as a table, what the gates say below each subgroup, and at the end what to know.

    Args:
        found: the comparison.
        terminal: columns of the terminal; a table that is wider is told figure below figure.
        refusals: whether to tell why gates refuse; an error that follows tells it too.
    """
    rows = [row for one in found.subgroups for row in _rows(one)]
    header, *table = columns(_HEADER, rows).split("\n")
    is_wide = terminal is not None and max(map(len, (header, *table))) > terminal
    lines = [_title(found), "", *([] if is_wide else [header])]
    for one in found.subgroups:
        many = len(_rows(one))
        told, table = table[:many], table[many:]
        lines += _stacked(one) if is_wide else told
        lines += [line for said in _verdicts(one.gates) for line in _wrapped(f"  {said}")]
    lines += ["", *(line for said in _verdicts(found.gates) for line in _wrapped(f"release, {said}"))]
    refused = [one for one in found.gates if one.verdict == "refused" and refusals]
    lines += [line for one in refused for line in _wrapped(f"gate {one.gate}: refused: {one.detail}")]
    if found.unreadable:
        lines += _wrapped(f"the running release cannot be read: {found.unreadable}")
    lines += [line for one in found.warnings for line in _wrapped(one)]
    if found.changes_nothing:
        lines += _wrapped("nothing would change: exactly this release runs")
    else:
        lines += _wrapped(f"LOSES: {', '.join(found.losses)}" if found.losses else "no figure is lost")
    return "\n".join(lines)


def _title(found: Comparison) -> str:
    release = "nothing runs" if found.release is None else f"release {found.release}"
    without = f", without a version for {', '.join(found.without)}" if found.without else ""
    numbers = ", ".join(map(str, sorted(found.candidate)))
    return lines_of([f"{found.model}, {found.alias}: {release} -> versions {numbers}{without}"])


def _rows(one: SubgroupChange) -> list[tuple[str, ...]]:
    changed = "changes" if one.version_changes else "the same"
    head = (one.subgroup, "answered by", _version(one.running), _version(one.candidate), changed)
    tested = ("", "test pictures", _tested(one.running), _tested(one.candidate), "")
    return [head, tested, *map(_figure, one.figures)]


def _stacked(one: SubgroupChange) -> list[str]:
    """The same rows for a narrow terminal: each figure with its change, and below it both values."""
    lines = []
    for subgroup, what, running, candidate, change in _rows(one):
        lines.append(f"{subgroup or ' '} {what}{f': {change}' if change else ''}")
        lines.append(f"    {running or 'nothing'} -> {candidate or 'nothing'}")
    return lines_of(lines).split("\n")


def _version(side: Answering | None) -> str:
    return "nobody" if side is None else f"version {side.version} ({'its own' if side.own else 'global'})"


def _tested(side: Answering | None) -> str:
    if side is None or side.n is None:
        return "none" if side is not None else ""
    if side.n_malignant is None or side.n_other is None:
        return f"{side.n}"
    return f"{side.n_malignant} malignant, {side.n_other} other"


def _figure(one: FigureChange) -> tuple[str, ...]:
    called = _SHORT.get(one.called, one.called)
    told = (_told(one.running), _told(one.candidate))
    if one.change is None:
        return "", called, *told, "GONE" if one.lost else ""
    return "", called, *told, f"{one.change:+.3f}{' WORSE' if one.lost else ''}"


def _told(told: Told | None) -> str:
    return "" if told is None else str(told)


def _verdicts(gates: Sequence[GateSaid]) -> Iterator[str]:
    """A line for each verdict, refusals first, with the gates that gave it."""
    verdicts = dict.fromkeys(one.verdict for one in gates)
    for verdict in sorted(verdicts, key=lambda verdict: verdict != "refused"):
        yield f"gates {verdict}: {', '.join(one.gate for one in gates if one.verdict == verdict)}"


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    shown = lines_of([text])
    return textwrap.wrap(shown, WIDTH, subsequent_indent=indent, break_long_words=False) or [""]


OVERRIDDEN: Final = "GATES OVERRIDDEN"
NOT_SIGNED: Final = "NOT SIGNED, though it says so"

FIGURES = (*patient.FIGURES, "accuracy", "ece")


def version_table(
    versions: Sequence[Version], states: Sequence[str] | None = None, tags: Sequence[str] | None = None
) -> str:
    """Versions, one on each line; `tags` and `states` add last columns."""
    header = ["model", "version", "subgroup", "created", "digest"]
    rows = [
        [one.model, str(one.number), one.subgroup.name, moment(one.created), one.digest] for one in versions
    ]
    if tags is not None:
        header, rows = [*header, "tags"], [[*row, tag] for row, tag in zip(rows, tags, strict=True)]
    if states is not None:
        header, rows = [*header, "state"], [[*row, state] for row, state in zip(rows, states, strict=True)]
    return columns(header, rows)


def release_line(alias: str, release: Release, overridden: Event | None = None) -> str:
    """Where an alias points, and by which event if that overrode the gates."""
    versions = ", ".join(f"{one.number} ({shown_name(one.subgroup.name)})" for one in release.versions)
    line = f"{alias}: release {release.id}, versions {versions}"
    if overridden is None:
        return lines_of([line])
    return lines_of(
        [
            line,
            f"  GATES OVERRIDDEN by {shown_name(overridden.actor)} at {moment(overridden.time)}: "
            f"{overridden.reason}",
        ]
    )


def canary_line(alias: str, canary: Canary) -> str:
    """Which release answers a share beside that of an alias, since when and why."""
    told = f"; {canary.reason}" if canary.reason else ""
    return lines_of(
        [
            f"{alias}: CANARY: {canary.title} to release {canary.release.id}, {canary.versions_told}, since "
            f"{moment(canary.since)} by {shown_name(canary.actor)}{told}"
        ]
    )


def stopped_line(alias: str, event: Event) -> str:
    """That an alias was stopped and points to nothing."""
    return lines_of(
        [f"{alias}: STOPPED by {event.actor} at {moment(event.time)}: {event.reason}; it points to nothing"]
    )


def version_page(version: Version, manifest: BundleManifest, withdrawal: Withdrawal | None = None) -> str:
    """Figures by subgroup, calibration and lineage of one version; before all that it was withdrawn."""
    subgroup, lineage = version.subgroup, manifest.lineage
    tones = "".join(f", {scale} {', '.join(values)}" for scale, values in subgroup.by_scale.items())
    conformal, abstention = manifest.conformal, manifest.abstention
    return lines_of(
        [
            f"version {version.number} for {shown_name(subgroup.name)}{tones}",
            *([] if withdrawal is None else [f"  {withdrawal}"]),
            f"  digest       {version.digest}",
            f"  added        {moment(version.created)}",
            *(
                f"  skin tone    {one.called}: patients in calibration {one.calibration or 'too few'}, "
                f"in test {one.test or 'too few'}"
                for one in manifest.claimed_tones
            ),
            *_taken(manifest),
            f"  temperature  {manifest.temperature.value:.3f} (n {manifest.temperature.n})",
            f"  coverage     {1 - conformal.alpha:.3g} promised: {conformal.guarantee} (n {conformal.n})",
            f"  referral     target risk {abstention.target_risk:.3g}, "
            f"below {probability_text(manifest.report_threshold)} (n {abstention.n})",
            f"  lineage      recipe {shown_name(lineage.recipe)}, seed {lineage.seed}, "
            f"dermfed {shown_name(lineage.code_version)}, "
            f"parent {lineage.parent or 'none'}",
            f"  job          {lineage.job}",
            *(
                f"  data         {shown_name(client)}: {shown_name(fingerprint)}"
                for client, fingerprint in lineage.data.items()
            ),
            *(f"  {line}" for line in _figures(manifest).split("\n")),
        ]
    )


def _taken(manifest: BundleManifest) -> list[str]:
    """What a model of cases takes; nothing for one of single pictures."""
    if (case := manifest.case) is None:
        return []
    return [
        f"  takes        1 to {case.slots} pictures ({', '.join(case.kinds) or 'no kinds'}), "
        f"facts {', '.join(case.fact_names) or 'none'}",
        f"  calibrated   {', '.join(one.pattern.name for one in manifest.patterns) or 'no pattern'}",
    ]


def event_lines(event: Event, forged: Collection[int] | None = ()) -> str:
    """One event, with all that was said of it.

    Args:
        event: the event.
        forged: the ids of events whose signature was checked and does not hold; None where none could be.
    """
    sure = signed_text(event, forged)
    head = f"{event.id}  {moment(event.time)}  {shown_name(event.actor)}{sure and f' ({sure})'}"
    told = [*event_said(event), *gate_lines(event), *([OVERRIDDEN] if event.overridden else [])]
    return lines_of([f"{head}  {event_title(event)}", *(f"    {line}" for line in told)])


def event_title(event: Event) -> str:
    """What was done, to which versions and which alias."""
    title, details = str(event.kind), event.details or {}
    if event.versions:
        title += (
            f" {'versions' if len(event.versions) > 1 else 'version'} {', '.join(map(str, event.versions))}"
        )
    if event.kind == "canary-started":
        whose = f" for {details['subgroup']}" if "subgroup" in details else ""
        title += f", {event.alias}: {details['share']:.4g} of requests{whose} to release {event.release}, "
        title += f"beside {event.before}"
    elif event.release is not None:
        title += f", {event.alias}: release {event.before or 'none'} -> {event.release}"
    elif event.kind == "stopped":
        title += f", {event.alias}: release {event.before or 'none'} -> nothing"
    elif event.alias is not None and event.kind != "gates-changed":
        title += f" for {event.alias}"
    if event.kind == "approved":
        title += _approved_title(details)
    if event.kind in ("tagged", "untagged") and details:
        title += f": {', '.join(details['tags'])}"
    if event.kind == "gates-changed" and details:
        before, after = (_set_name(details[end]) for end in ("before", "after"))
        title += f": {before} -> {after}"
    return title


def _approved_title(details: Mapping[str, Any]) -> str:
    """What was approved, where it is more than a release."""
    if "gates" in details:
        whose = f"of {details['model']}" if details["model"] else "for all models"
        return f": the gate set {details['gates']} {whose}"
    if "fingerprint" in details:
        roles = ", ".join(details["roles"])
        return f": adding {shown_name(details['name'])} ({roles}) with the key {details['fingerprint']}"
    return " although gates refuse" if details.get("over_gates") else ""


def event_said(event: Event) -> list[str]:
    """What was said of an event beside what gates said, each on a line."""
    details = event.details or {}
    lines = [*_went_back(details), *_of_canary(details)]
    if event.kind in ("alarm", "alarm-closed") and details:
        lines.append(_alarm_said(details))
    if event.kind == "noted" and details:
        lines.append(f"note: {details['note']}")
    if without := details.get("without"):
        lines.append(f"without a version for: {', '.join(without)}")
    if event.kind == "imported" and details:
        lines.append(f"from: {_origin(details['origin'])}")
    if approved_by := details.get("approved_by"):
        lines.append(f"approved by: {', '.join(map(shown_name, approved_by))}")
    if event.reason is not None:
        lines.append(f"reason: {event.reason}")
    if event.kind == "withdrawn":
        lines.append("WITHDRAWN for good")
    return lines


def gate_lines(event: Event) -> list[str]:
    """What each gate said of an event."""
    return [] if event.gates is None else _record_told(event.gates.results)


def signed_text(event: Event, forged: Collection[int] | None = ()) -> str:
    """How sure it is who did it, in words; empty where it takes nobody in particular.

    Args:
        event: the event.
        forged: as for `event_lines`.
    """
    if event.signed_with is None:
        return "not signed" if event.kind in ROLE_FOR else ""
    if forged is None:
        return "signed, not checked"
    return NOT_SIGNED if event.id in forged else "signed"


def _went_back(details: Mapping[str, Any]) -> list[str]:
    """Why an alias went back by itself, and what it passed over."""
    lines = []
    if because := details.get("because"):
        lines.append(f"since withdrawn: version {', '.join(map(str, because))}")
    for one in details.get("skipped", ()):
        held = ", ".join(map(str, one["withdrawn"]))
        lines.append(f"skipped: release {one['release']}, which holds version {held}, withdrawn")
    return lines


def _of_canary(details: Mapping[str, Any]) -> list[str]:
    """What became of a canary's share, and which ended and why."""
    lines = [f"its share was: {details['share_before']:.4g}"] if "share_before" in details else []
    if ended := details.get("canary"):
        lines.append(f"ended: the canary, release {ended}")
    return lines


def _alarm_said(details: Mapping[str, Any]) -> str:
    """Which alarm an event is about, and what was promised."""
    told = f"alarm {details['alarm']}: {details['of']} promised to {shown_name(details['subgroup'])}"
    if "least" not in details:
        return told
    return (
        f"{told}, {details['least']:.2f} or more, broken on {details['day']} ({details['outcomes']:,} "
        f"outcomes, evidence {details['evidence']:.3g} of {details['limit']:.3g})"
    )


def _origin(origin: dict[str, Any]) -> str:
    numbers = ", ".join(str(version["number"]) for version in origin["versions"])
    told = (
        f"release {origin['release']} under {shown_name(origin['alias'])} (versions {numbers} there), "
        f"promoted at {shown_name(origin['time'])} "
    )
    key = origin["key"]
    # The file names the key and holds no signature: whoever wrote it may have named anybody's.
    signed = "signed by nobody" if key is None else f"signed, it says, with the key {shown_name(key)}"
    return f"{told}(event {origin['event']} of registry {origin['registry'] or 'unknown'}), {signed}"


def _set_name(named: dict[str, Any]) -> str:
    return set_title(named["model"], named["number"], named.get("alias", ""))


def _record_told(results: Sequence[GateResult]) -> list[str]:
    """What each gate said."""
    return [f"gate {one.gate}: {one.verdict}: {one.detail}" for one in results]


def gate_table(report: GateReport) -> str:
    """Each gate with each subgroup, its figure, limit and verdict; below, what refuses and what to do."""
    rows = [row for result in report.results for row in _gate_rows(result)]
    table = columns(("gate", "subgroup", "figure", "limit", "verdict"), rows)
    telling = _record_told([one for one in report.results if one.verdict != "passed"])
    asked = set_title(report.set_model, report.set_number, report.set_alias)
    return lines_of([f"gate {asked}", *table.split("\n"), *telling])


def _gate_rows(result: GateResult) -> list[list[str]]:
    if not result.findings:
        return [[result.gate, "", "", "", result.verdict]]
    return [
        [
            result.gate,
            one.subgroup,
            _measured(one),
            "" if one.limit is None else f"{one.bound} {_brief(one.limit)}",
            one.verdict,
        ]
        for one in result.findings
    ]


def _measured(finding: GateFinding) -> str:
    told = finding.measure
    if finding.value is not None:
        told += f" {_brief(finding.value)}"
    beside = [] if finding.n is None else [f"n {finding.n}"]
    if finding.interval is not None:
        beside.append(f"{finding.interval[0]:.3f} to {finding.interval[1]:.3f}")
    if finding.note:
        beside.append(finding.note)
    return f"{told} ({', '.join(beside)})" if beside else told


def _brief(value: float) -> str:
    """A share to three places, a count whole, and a tiny difference as it is."""
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 1 and value == int(value) else f"{value:.3f}"


def key_table(keys: Sequence[ApiKey]) -> str:
    """Keys, one on each line; no secret is known here."""
    now = datetime.now(UTC)
    rows = [
        [
            *(key.id, key.name, moment(key.created), _key_state(key, now)),
            *(", ".join(key.scopes), str(key.per_minute or ""), key.replaces or ""),
        ]
        for key in keys
    ]
    return columns(("id", "name", "created", "state", "scopes", "per minute", "replaces"), rows)


def _key_state(key: ApiKey, now: datetime) -> str:
    if key.revoked is not None:
        return f"revoked {moment(key.revoked)}"
    if key.expires is None:
        return "valid"
    return f"{'expired' if key.expired(now) else 'valid until'} {moment(key.expires)}"


def people_table(people: Sequence[Person]) -> str:
    """People, one on each line, with the fingerprint of their key."""
    rows = [
        [
            *(shown_name(one.name), ", ".join(one.roles), moment(one.created)),
            *("valid" if one.revoked is None else f"revoked {moment(one.revoked)}", one.fingerprint),
        ]
        for one in people
    ]
    return columns(("name", "roles", "added", "state", "key"), rows)


def measured(value: float | None, interval: tuple[float, float] | None) -> Cell:
    """A figure to three places with its interval."""
    text = "unknown" if value is None else f"{value:.3f}"
    return Cell(text, "" if interval is None else f"({interval[0]:.3f} to {interval[1]:.3f})")


def _figures(manifest: BundleManifest) -> str:
    rows = {name: row for name, row in figures_by_subgroup(manifest).items() if isinstance(row, Mapping)}
    return _figure_table(rows, FIGURES) if rows else "no test figures by subgroup"


def _figure_table(found: Mapping[str, Mapping[str, Any]], figures: Sequence[str]) -> str:
    rows = tuple(
        Row(name, (_count(row), *(Cell(str(patient.told(row, figure))) for figure in figures)))
        for name, row in found.items()
    )
    called = (patient.FIGURES.get(figure, figure.replace("_", " ")) for figure in figures)
    return text_of(Table("subgroups", "test figures by subgroup", ("subgroup", "n", *called), rows))


def _count(row: Mapping[str, Any]) -> Cell:
    n, sides = row.get("n"), patient.sides(row)
    return Cell(str(n) if isinstance(n, int) else "unknown", f"({sides})" if sides else "")
