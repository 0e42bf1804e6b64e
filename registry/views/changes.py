"""What differs between two versions, what a promotion would change, and what gates found.

The difference of a metric is after - before. Whether the two 95 % intervals overlap is reported, and no test:
where they do not, the versions differ; where they do, they may differ all the same, above all on the same
test pictures.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from registry.bundle.labels import kinds_of
from registry.bundle.manifest import BundleManifest, sha256
from registry.bundle.metrics.patient import AT_WORKING_POINT, FIGURES, OF_A_KIND, TOO_FEW, UNKNOWN, Told, told
from registry.bundle.score_bins import LOGIT_BINS
from registry.bundle.text import shown_name
from registry.gate_report import Answering, Comparison, GateFinding, GateReport, SubgroupChange, set_title
from registry.records import Version, Withdrawal
from registry.views.tables import Cell, Row, Section, Table, draw

_SHOWN: Final = {
    *FIGURES,
    *AT_WORKING_POINT,
    *OF_A_KIND,
    "accuracy",
    "auroc",
    "ece",
    "coverage",
    "spread",
    "worst",
}
_LONGEST: Final = 60  # characters of a value
_NAMED_BY: Final = {"labels": "code", "case.facts": "name", "patterns": "pattern"}
"""Lists whose entries go by their names, and which key that is."""
_WITH_PROBABILITY: Final = ("conformal",)  # whose threshold is a bin of probabilities
_PACKED: Final = ("means", "whitening")  # matrices as text, of which the digest is compared


Part = Literal["all", "subgroup", "fairness"]


@dataclass(frozen=True)
class Changed:
    """One value that differs between two manifests.

    Attributes:
        what: its name, with dots, as in `bundle.json`.
        before, after: the value in each; None where it is absent.
    """

    what: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FigureValue:
    """One metric of one version.

    Attributes:
        value: None where it is undefined or absent.
        interval: its two ends, if the manifest has them.
        n: the pictures behind it, if the manifest says.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int | None


@dataclass(frozen=True)
class FigureChange:
    """One metric of both versions.

    Attributes:
        part: over what: all pictures, those of a subgroup, or the differences between subgroups.
        subgroup: which, for the part `subgroup`.
        figure: its name, as in `bundle.json`.
        before, after: of each version.
        difference: after - before; None where either is undefined.
        overlap: whether the intervals have a value in common; None where either is absent.
        kind: of malignancy, whose figure it is; None for that of all pictures.
    """

    part: Part
    subgroup: str | None
    figure: str
    before: FigureValue
    after: FigureValue
    difference: float | None
    overlap: bool | None
    kind: str | None = None


@dataclass(frozen=True)
class ComparedVersion:
    """One of the two versions.

    Attributes:
        version: its number.
        digest: its bundle's digest.
        subgroup: whom it is for.
        parent: the digest of the bundle that it was fine-tuned from, if its bundle says.
        parent_version: the version of the same model that this is; None where it is none of them.
        withdrawn: that it was withdrawn, when and why; empty where it was not.
    """

    version: int
    digest: str
    subgroup: str
    parent: str | None
    parent_version: int | None
    withdrawn: str = ""

    @property
    def title(self) -> str:
        """The version in words."""
        return f"version {self.version} ({shown_name(self.subgroup)})"


@dataclass(frozen=True)
class Difference:
    """The difference between two versions of a model.

    Attributes:
        model: the model's name.
        before, after: the two.
        changed: the values of the manifests that differ, metrics left out.
        unchanged: the names of those that do not.
        figures: every test metric of both.
    """

    model: str
    before: ComparedVersion
    after: ComparedVersion
    changed: tuple[Changed, ...]
    unchanged: tuple[str, ...]
    figures: tuple[FigureChange, ...]


def compare(
    pair: Sequence[tuple[Version, BundleManifest]],
    known: Sequence[Version],
    withdrawals: Sequence[Withdrawal] = (),
) -> Difference:
    """Compares the first version with the second; `known` and `withdrawals` are all those of the model."""
    numbers = {version.digest: version.number for version in known}
    withdrawn = {one.number: str(one) for one in withdrawals}
    first, second = (
        ComparedVersion(
            version.number,
            version.digest,
            version.subgroup.name,
            manifest.lineage.parent,
            numbers.get(manifest.lineage.parent or ""),
            withdrawn.get(version.number, ""),
        )
        for version, manifest in pair
    )
    (_, before), (_, after) = pair
    return Difference(known[0].model, first, second, *changes(before, after), figure_changes(before, after))


def changes(before: BundleManifest, after: BundleManifest) -> tuple[tuple[Changed, ...], tuple[str, ...]]:
    """The values that differ between two manifests, and the names of those that do not."""
    one, other = facts(before), facts(after)
    names = dict.fromkeys((*one, *other))
    changed = [name for name in names if one.get(name) != other.get(name)]
    unchanged = tuple(name for name in names if name not in changed)
    return tuple(Changed(name, one.get(name), other.get(name)) for name in changed), unchanged


def facts(manifest: BundleManifest) -> dict[str, Any]:
    """Every value of a manifest but its metrics, by dotted name, in the order of `bundle.json`."""
    record = manifest.model_dump(mode="json", exclude={"evaluation", "reference"})
    if manifest.case is None:
        del record["case"], record["patterns"]
    else:
        for rules, said in zip(manifest.patterns, record["patterns"], strict=True):
            said["pattern"] = rules.pattern.name
    return dict(_flat(record))


def _flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        where = f"{above}{name}"
        if where in _NAMED_BY:
            names = [one.pop(_NAMED_BY[where]) for one in value]
            value = {"order": names, **dict(zip(names, value, strict=True))}
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{where}.")
        else:
            yield where, sha256(value.encode()) if name in _PACKED else value
        if name == "threshold_bin" and above.rstrip(".").rpartition(".")[2] in _WITH_PROBABILITY:
            yield f"{above}threshold", LOGIT_BINS.lower(value)


def figure_changes(before: BundleManifest, after: BundleManifest) -> tuple[FigureChange, ...]:
    """Every metric that either version has, whether it changed or not."""
    one, other = _blocks(before), _blocks(after)
    kinds = list(dict.fromkeys((*kinds_of(before.labels), *kinds_of(after.labels))))
    kinds = kinds if len(kinds) > 1 else []
    found: list[FigureChange] = []
    for block in dict.fromkeys((*one, *other)):
        rows = one.get(block, {}), other.get(block, {})
        for name in dict.fromkeys(name for row in rows for name in row.get("intervals", ())):
            first, second = (_value(row, name) for row in rows)
            if first.value is not None or second.value is not None:
                found.append(FigureChange(*block, name, first, second, *_apart(first, second)))
        found += _changes_by_kind(block, rows, kinds)
    return tuple(found)


def _changes_by_kind(
    block: tuple[Part, str | None], rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]
) -> Iterator[FigureChange]:
    """The metrics by kind of malignancy of both versions; sensitivity also if not disclosed."""
    for kind in kinds:
        of_kind = [row.get("by_kind", {}).get(kind, {}) for row in rows]
        for name in OF_A_KIND:
            first, second = (_value(each, name) for each in of_kind)
            told_of_all = any(row.get(name) is not None for row in rows)
            if told_of_all or first.value is not None or second.value is not None:
                yield FigureChange(*block, name, first, second, *_apart(first, second), kind)


def _blocks(manifest: BundleManifest) -> dict[tuple[Part, str | None], Mapping[str, Any]]:
    metrics = manifest.metrics
    rows: dict[tuple[Part, str | None], Mapping[str, Any]] = {("all", None): metrics}
    for name, row in metrics.get("by_subgroup", {}).items():
        rows["subgroup", name] = row
    return rows | ({("fairness", None): metrics["fairness"]} if "fairness" in metrics else {})


def _value(row: Mapping[str, Any], name: str) -> FigureValue:
    found = told(row, name)
    return FigureValue(found.value, found.interval, row.get("n"))


def _apart(one: FigureValue, other: FigureValue) -> tuple[float | None, bool | None]:
    """The difference of two values, and whether their intervals overlap."""
    difference = None if one.value is None or other.value is None else other.value - one.value
    if one.interval is None or other.interval is None:
        return difference, None
    (low, high), (other_low, other_high) = one.interval, other.interval
    return difference, low <= other_high and other_low <= high


def difference_text(found: Difference) -> str:
    """What changed between two versions, then the metrics that a release is judged by."""
    sides = (found.before, found.after)
    lines = [
        *(f"{one.title} began from version {one.parent_version}" for one in sides if one.parent_version),
        *(f"{one.title} is {one.withdrawn}" for one in sides if one.withdrawn),
    ]
    versions = tuple(f"version {one.version}" for one in sides)
    changed = (Row.of(one.what, _short(one.before), _short(one.after)) for one in found.changed)
    figures = (
        Row.of(
            one.subgroup or {"all": "all pictures", "fairness": "between subgroups"}[one.part],
            one.figure.replace("_", " ") + ("" if one.kind is None else f", {one.kind}"),
            *(_figure(side, UNKNOWN if one.kind is None else TOO_FEW) for side in (one.before, one.after)),
            "unknown" if one.difference is None else f"{one.difference:+.3f}",
            {True: "overlap", False: "apart", None: "unknown"}[one.overlap],
        )
        for one in found.figures
        if one.figure in _SHOWN
    )
    header = ("of", "figure", *versions, "difference", "intervals")
    facts = Table.of("Facts that changed", ("changed", *versions), changed)
    tested = Table.of("Test figures of both versions", header, figures)
    return draw(
        Section.of(f"{found.model}: {found.before.title} -> {found.after.title}", *lines),
        Section.of("", facts, otherwise="everything but figures is the same"),
        Section.of("", tested, otherwise="neither version has test figures"),
    )


def _figure(one: FigureValue, otherwise: str) -> str:
    text = str(Told(one.value, one.interval, otherwise))
    return text if one.n is None else f"{text}, n {one.n}"


def _short(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith("sha256:"):
        return text[:19] + "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def comparison_text(found: Comparison, *, refusals: bool = True) -> str:
    """The table to read before promoting: darkest skin and sensitivity first, losses marked, then the gates.

    Args:
        found: the comparison.
        refusals: whether to say why gates refuse; an error that follows says it too.
    """
    release = "nothing runs" if found.release is None else f"release {found.release}"
    without = f", without a version for {', '.join(found.without)}" if found.without else ""
    numbers = ", ".join(map(str, sorted(found.candidate)))
    header = ("subgroup", "", "running", "candidate", "change")
    rows = (row for one in found.subgroups for row in _subgroup_rows(one))
    lines = [
        f"gate {one.gate}: refused: {one.detail}"
        for one in found.gates
        if one.verdict == "refused" and refusals
    ]
    if found.unreadable:
        lines.append(f"the running release cannot be read: {found.unreadable}")
    lines += found.warnings
    if found.changes_nothing:
        lines.append("nothing would change: exactly this release runs")
    else:
        lines.append(f"LOSES: {', '.join(found.losses)}" if found.losses else "no figure is lost")
    return draw(
        Section.of(f"{found.model}, {found.alias}: {release} -> versions {numbers}{without}"),
        Section.of("", Table.of("Each subgroup, the darkest skin first", header, rows)),
        Section.of("", _verdicts(found)),
        Section.of("", *lines),
    )


def _subgroup_rows(one: SubgroupChange) -> Iterator[Row]:
    changed = "changes" if one.version_changes else "the same"
    yield Row.of(one.subgroup, "answered by", _version(one.running), _version(one.candidate), changed)
    yield Row.of("", "test pictures", _tested(one.running), _tested(one.candidate), "")
    for each in one.figures:
        change = Cell("GONE" if each.lost else "", bad=each.lost)
        if each.change is not None:
            change = Cell(f"{each.change:+.3f}{' WORSE' if each.lost else ''}", bad=each.lost)
        values = ("" if side is None else str(side) for side in (each.running, each.candidate))
        yield Row.of("", each.called, *values, change)


def _version(side: Answering | None) -> str:
    return "nobody" if side is None else f"version {side.version} ({'its own' if side.own else 'global'})"


def _tested(side: Answering | None) -> str:
    if side is None or side.n is None:
        return "none" if side is not None else ""
    if side.n_malignant is None or side.n_other is None:
        return f"{side.n}"
    return f"{side.n_malignant} malignant, {side.n_other} other"


def _verdicts(found: Comparison) -> Table:
    """The gates by verdict: a line for each subgroup that any gate looks at, and one for the release."""
    verdicts = ("refused", "passed", "not judged")
    places = [(one.subgroup, one.gates) for one in found.subgroups if one.gates]
    rows = []
    for name, gates in (*places, ("release", found.gates)):
        by_verdict = (", ".join(one.gate for one in gates if one.verdict == each) for each in verdicts)
        rows.append(Row.of(name, *by_verdict))
    return Table.of("What gates say", ("gates", *verdicts), rows)


def gate_table(report: GateReport) -> str:
    """Each gate with each subgroup, its value, limit and verdict; below, what refuses and what to do."""
    rows = [
        Row.of(
            result.gate,
            one.subgroup,
            _measured(one),
            "" if one.limit is None else f"{one.bound} {_brief(one.limit, one)}",
            Cell(one.verdict, bad=one.verdict == "refused"),
        )
        for result in report.results
        for one in result.findings or [GateFinding(subgroup="", measure="", verdict=result.verdict)]
    ]
    header = ("gate", "subgroup", "figure", "limit", "verdict")
    details = (
        f"gate {one.gate}: {one.verdict}: {one.detail}" for one in report.results if one.verdict != "passed"
    )
    title = f"gate {set_title(report.set_model, report.set_number, report.set_alias)}"
    return draw(Section.of(title, Table.of("What gates found", header, rows), *details))


def _measured(finding: GateFinding) -> str:
    text = finding.measure if finding.value is None else f"{finding.measure} {_brief(finding.value, finding)}"
    more = [] if finding.n is None else [f"n {finding.n}"]
    if finding.interval is not None:
        more.append(f"{finding.interval[0]:.3f} to {finding.interval[1]:.3f}")
    if finding.note:
        more.append(finding.note)
    return f"{text} ({', '.join(more)})" if more else text


def _brief(value: float, of: GateFinding) -> str:
    """A share to three places, a count whole, and a tiny difference as it is; a limit of 1 or more counts."""
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    counted = value >= 1 or (of.limit is not None and of.limit >= 1)
    return f"{value:.0f}" if counted and value == int(value) else f"{value:.3f}"
