"""The model card as sections: what a page shows of a release, and a terminal of a version.

Everything is read from the JSON that `registry.views.card` makes, so that page and JSON agree.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from registry.bundle.labels import SYSTEMS
from registry.bundle.manifest import UNSIGNED
from registry.bundle.metrics.patient import AT_WORKING_POINT, COUNTS, FIGURES, OF_A_KIND, TOO_FEW, sides, told
from registry.bundle.score_bins import probability_text
from registry.views.card import FEW, Card, answering, called, percent, standing
from registry.views.tables import Cell, Facts, Row, Section, Table, environment

UNKNOWN: Final = "unknown"

MEASURES: Final[Mapping[str, str]] = {
    "malignant_sensitivity": "Sensitivity, malignant",
    "malignant_specificity": "Specificity, malignant",
    "malignancy_auroc": "AUROC, malignancy",
    "balanced_accuracy": "Balanced accuracy",
    "sensitivity_at_threshold": "Sensitivity at the working point",
    "specificity_at_threshold": "Specificity at the working point",
    "ruled_out_malignant": "Ruled out, malignant",
    "ruled_out_other": "Ruled out, other",
    "urgent_malignant": "Urgent, malignant",
    "urgent_other": "Urgent, other",
    "accuracy": "Accuracy",
    "recall": "Recall",
    "precision": "Precision",
    "f1": "F1",
    "macro_precision": "Macro precision",
    "macro_f1": "Macro F1",
    "weighted_precision": "Weighted precision",
    "weighted_recall": "Weighted recall",
    "weighted_f1": "Weighted F1",
    "specificity": "Specificity",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "ece": "ECE",
    "mce": "MCE",
    "aurc": "AURC",
    "coverage": "Coverage of sets",
    "set_size": "Mean set size",
    "answered": "Share concluded, urgent or ruled out",
    "reported": "Share concluded",
    "reported_risk": "Wrong among reported",
    "spread": "Spread",
    "spread_standardised": "Spread, one mix of diseases",
    "gap": "Gap",
    "worst": "Worst",
    "variance": "Variance",
    "accuracy_standardised": "Accuracy, one mix of diseases",
    "balanced_accuracy_standardised": "Balanced accuracy, one mix of diseases",
}
"""What metrics are called, in the order of columns; others follow under their own names."""

_MEANINGS: Final[Mapping[str, str]] = {
    "spread": "best accuracy minus worst",
    "spread_standardised": "the same, as if all subgroups had one mix of diseases",
    "gap": "mean distance of a subgroup's accuracy from that of all others together",
    "worst": "mean over subgroups of the lower of both",
    "variance": "variance of the accuracies",
}
_BASES: Final[Mapping[str, str]] = {
    "split": "lesions kept apart for it",
    "cross-fitted": "training lesions, each by a model that was not trained on it (cross-fitted)",
}
_FITS: Final[Mapping[str, str]] = {
    "squash": "both sides are scaled, which distorts pictures that are not square",
    "crop": "the shorter side is scaled and the centre is cut out; the edges are not seen",
}
_USES: Final[Mapping[str, str]] = {
    "report": "Report",
    "refer": "Refer",
    "prediction_set": "Prediction set",
    "malignancy": "Malignancy",
    "triage": "Triage",
    "unfamiliar": "Unfamiliar picture",
}
_KEY: Final = ("malignant_sensitivity", "malignant_specificity", "malignancy_auroc", "auroc")
_IN_SHORT: Final = (*FIGURES, "accuracy", "ece")


# Metrics as cells and tables.


def metric_title(name: str) -> str:
    """What a metric is called."""
    return MEASURES.get(name) or name.replace("_", " ")


def figure(value: float | None) -> str:
    """A number to three places (five where it is small); `unknown` where there is none."""
    if value is None:
        return UNKNOWN
    text = f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.5f}"
    return text.replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """An interval in brackets, `(0.720 to 0.870)`; empty where there is none."""
    return "" if ends is None else f"({figure(ends[0])} to {figure(ends[1])})"


def cell(row: Mapping[str, Any], name: str) -> Cell:
    """One metric of a row with its interval, or why there is none."""
    found = told(row, name)
    return Cell(found.words) if found.value is None else Cell(figure(found.value), interval(found.interval))


def _tested_on(row: Mapping[str, Any]) -> Cell:
    """The test pictures of a row, how many of them malignant, and whether they are few."""
    n = row.get("n")
    if n is None:
        return Cell(UNKNOWN)
    return Cell(str(n), ", ".join(filter(None, (sides(row), "few" if n < FEW else ""))))


def _known_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The metrics that any of the rows has, those of `MEASURES` first."""
    found = {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
    found -= set(COUNTS)
    return [*(name for name in MEASURES if name in found), *sorted(found - set(MEASURES))]


def _metric_table(
    caption: str, head: str, rows: Mapping[str, Mapping[str, Any] | None], note: str = ""
) -> Table:
    """One row for each name, one column for each metric that any has; of a row of None all is too small."""
    names = _known_columns(row for row in rows.values() if row is not None)
    too_few = [TOO_FEW] * (len(names) + 1)
    drawn = (
        Row.of(name, *too_few if row is None else (_tested_on(row), *(cell(row, each) for each in names)))
        for name, row in rows.items()
    )
    return Table.of(caption, (head, "Test pictures", *map(metric_title, names)), drawn, note)


def by_subgroup(card: Card, only: Collection[str] = ()) -> Table:
    """Metrics of each subgroup, and of all test pictures together where those are more; or `only` these."""
    rows = dict(card["by_subgroup"])
    total = {**card["metrics"], "intervals": card["intervals"]}
    names = _known_columns(rows.values()) or _known_columns([total])
    if (rows or names) and not any(row.get("n") == total.get("n") for row in rows.values()):
        rows["all together"] = {name: total.get(name) for name in (*COUNTS, "intervals", *names)}
    if only:
        shown = (*only, *COUNTS, "intervals")
        rows = {name: {each: row[each] for each in shown if each in row} for name, row in rows.items()}
    note = "In brackets: 95 % intervals. ECE, MCE and AURC are errors: lower is better."
    return _metric_table("Test figures by skin tone", "Skin tones", rows, note)


def by_kind(card: Card) -> Table:
    """Sensitivity and triage of each kind of malignancy, by skin tone and over all; none of a single kind."""
    total = {"all together": card["metrics"]} if len(card["by_subgroup"]) != 1 else {}
    rows = (
        Row.of(f"{name}: {kind}", *cells)
        for name, row in {**card["by_subgroup"], **total}.items()
        for kind, cells in _kind_cells(card, row, tuple(OF_A_KIND))
    )
    header = (
        "Skin tone: kind",
        *(text[0].upper() + text[1:] for text in OF_A_KIND.values()),
        "Test pictures",
    )
    return Table.of("Malignant test pictures by kind", header, rows)


def _kind_cells(
    card: Card, row: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[str, list[Cell | str]]]:
    """The cells of each of several kinds of malignancy in a row of metrics, its number of pictures last."""
    for kind in card["kinds"] if len(card["kinds"]) > 1 else ():
        if (of := row.get("by_kind", {}).get(kind)) is None:
            yield kind, [TOO_FEW] * (len(names) + 1)
        else:
            yield kind, [*("" if of.get(name) is None else cell(of, name) for name in names), _tested_on(of)]


def _by_class(card: Card) -> Table:
    names = {label["code"]: f"{label['name']} ({label['code']})" for label in card["labels"]}
    rows = {names.get(code, code): row for code, row in card["by_class"].items()}
    return _metric_table("Test figures by disease", "Disease", rows)


def _tones(card: Card) -> Table:
    header = ("Skin tone", "Subgroup", "Patients in calibration", "Patients in test")
    rows = []
    for one in card["tones"]:
        counted = (TOO_FEW if n is None else f"{n:,}" for n in (one["calibration"], one["test"]))
        rows.append(Row.of(f"{one['tone']} ({one['scale']})", one["subgroup"], *counted))
    note = (
        "Of a tone with too few patients, or none, nothing is promised: the model for everybody answers. The "
        "numbers are lower bounds, since a hospital with few patients of a tone discloses nothing of them."
    )
    return Table.of("Patients by skin tone", header, rows, note)


def _fairness(card: Card) -> Table:
    found = card["fairness"] or {}
    names = _known_columns([found])
    rows = (Row.of(metric_title(name), cell(found, name), note=_MEANINGS.get(name, "")) for name in names)
    return Table.of("Fairness over skin tones", ("Figure", "Value"), rows)


def _differences(card: Card) -> Table:
    rows = (
        Row.of(
            " − ".join(one["between"]),
            metric_title(one["figure"]),
            Cell(figure(one.get("value")), interval(one.get("interval"))),
            figure(one.get("p")),
            figure(one.get("p_adjusted")),
        )
        for one in card["differences"] or ()
    )
    header = ("Subgroups", "Figure", "Difference", "p", "p adjusted")
    note = "p adjusted: for the number of pairs that were compared."
    return Table.of("Differences between skin tones", header, rows, note)


def _intersections(card: Card) -> Iterator[Table]:
    """One table for each further column: skin tones within its values."""
    for column, values in (card["intersections"] or {}).items():
        rows = {f"{value}, {name}": row for value, each in values.items() for name, row in each.items()}
        yield _metric_table(f"Skin tones within {column}", column, rows)


# Facts.


def _confidence(card: Card) -> Facts:
    """Temperature, prediction sets and unfamiliar pictures."""
    calibration = card["calibration"]
    temperature, sets, expected = (
        calibration[name] for name in ("temperature", "conformal", "expected_coverage")
    )
    shrunk = ", drawn towards that of everybody" if temperature["shrunk"] else ""
    guarantee, unfamiliar = sets["guarantee"], card["out_of_distribution"]
    if guarantee != "none":
        guarantee += f", on {sets['n']} lesions"
    pairs = {
        "Calibrated on": _BASES[calibration["basis"]],
        "Temperature": f"{figure(temperature['value'])}, on {temperature['n']} pictures{shrunk}",
        "Prediction sets: coverage aimed at": percent(1 - sets["alpha"]),
        "Prediction sets: guarantee": guarantee,
        "Prediction sets: least expected coverage": _share(expected),
        "Prediction sets: smallest probability": probability_text(calibration["set_threshold"]),
    }
    if unfamiliar is None:
        return Facts((*pairs.items(), ("Unfamiliar pictures", "not noticed")))
    threshold, rate = unfamiliar["threshold"], percent(unfamiliar["rate"])
    pairs |= {
        "Unfamiliar pictures: beyond a distance of": "none; nothing is called unfamiliar"
        if threshold is None
        else figure(threshold),
        "Unfamiliar pictures: known ones called so": f"{rate} at most, on {unfamiliar['n']} lesions",
        "Unfamiliar pictures: diseases known": ", ".join(unfamiliar["classes"]),
        "Unfamiliar pictures: trained on": f"{unfamiliar['trained_on']:,} pictures",
    }
    return Facts(tuple(pairs.items()))


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else percent(round(share, 3))


def _patterns(card: Card) -> Table:
    """What calibration found for each pattern of what is given with a case."""
    header = ("Given", "Promised", "Lesions", "Classes in a set", "Something concluded")
    rows = (
        Row.of(
            one["pattern"],
            one["conformal"]["guarantee"],
            f"{one['conformal']['n']:,}",
            UNKNOWN if one["set_size"] is None else f"{one['set_size']:.2f}",
            _share(one["reported"]),
        )
        for one in card.get("patterns", ())
    )
    note = "For anything else nothing is promised. Context is all facts, some context some of them."
    return Table.of("What is given, and how sure the model then is", header, rows, note)


def _data(card: Card) -> Facts:
    counted = card["data"]
    trained, calibrated, tested = (
        UNKNOWN if counted[name] is None else f"{counted[name]:,}"
        for name in ("trained_at_least", "calibrated", "tested")
    )
    if counted["trained_at_least"] is not None:
        trained = f"at least {trained}, in the classes that have a Gaussian"
    pairs = (
        ("Training pictures", trained),
        ("Calibration pictures", calibrated),
        ("Test pictures", tested),
        ("Skin tones without test pictures", ", ".join(counted["absent"]) or "none named"),
    )
    return Facts(pairs)


def _clients(card: Card) -> Table:
    rows = tuple(Row.of(name, text) for name, text in card["data"]["clients"].items())
    return Table.of("Data trained on", ("Client", "Fingerprint"), rows)


def _lineage(card: Card, figures: str) -> Facts:
    """Where the model comes from, with every digest."""
    record = card["lineage"]
    found = record["encoder"] or ()
    encoders = (
        f"{one['name']} from {one['source']} ({one['licence'] or 'licence unknown'}), {one['sha256']}"
        for one in ((found,) if isinstance(found, Mapping) else found)
    )
    pairs = (
        ("Recipe", record["recipe"]),
        ("Seed", str(record["seed"])),
        ("dermfed", record["code_version"]),
        ("Made", record["created"] or "the bundle does not say when"),
        ("Registered", card["registered"] or "in no registry"),
        ("Job", record["job"]),
        ("Fine-tuned from", record["parent"] or "no other bundle"),
        *(("Encoder", one) for one in encoders),
        ("Figures", figures),
        ("Bundle", card["digest"]),
        ("Model file", f"{card['file']['sha256']}, {card['file']['size']:,} bytes"),
    )
    return Facts(pairs)


def measured(card: Card) -> str:
    """Who has signed the metrics: a key, whose owner a card does not know."""
    key = card.get("measured_by")
    return UNSIGNED if key is None else f"measured and signed by {key}"


def _picture(card: Card) -> Facts:
    rule = card["picture"]
    pairs = (
        ("Size", f"{rule['size']} × {rule['size']} pixels; {_FITS[rule['fit']]}"),
        ("Resized by", f"{rule.get('interpolation', 'bilinear')} interpolation, antialiased"),
        ("Formats", "JPEG, PNG, WebP"),
        ("Largest picture", f"{rule['max_pixels']:,} pixels"),
        ("JPEG scaled by its decoder", "yes" if rule["draft"] else "no"),
        ("Version of the rule", str(rule["version"])),
    )
    return Facts(pairs)


def _taken(card: Card) -> Facts | None:
    """What a model of cases may be given; None for one of single pictures."""
    if (case := card.get("case")) is None:
        return None
    facts = []
    for one in case["facts"]:
        if one["kind"] == "number":
            allowed = f"{one['low']:g} to {one['high']:g} {one['unit']}".strip()
        else:
            allowed = ", ".join(one["values"])
        facts.append(f"{one['name']} ({allowed})")
    pairs = (
        ("Pictures of a lesion", f"1 to {case['slots']}"),
        ("Kinds that it was trained on", ", ".join(case["kinds"]) or "none in particular"),
        ("Facts, each of which may be missing", "; ".join(facts) or "none"),
    )
    return Facts(pairs)


def _labels(card: Card) -> Table:
    """What the model may answer, with codes of other systems; those that are not certain are marked."""
    systems = {system: name for name, system in SYSTEMS.items()}
    rows = []
    for label in card["labels"]:
        codes = (
            f"{systems.get(one['system'], one['system'])} {one['code']}"
            + ("" if one["certain"] else " (to be checked)")
            for one in label["codings"]
        )
        rows.append(Row.of(label["name"], label["code"], label["malignancy"], ", ".join(codes) or "none"))
    header = ("Disease", "Code", "Malignancy", "Codes elsewhere")
    return Table.of("What it answers with", header, rows)


# A version, and a release.


_INPUTS: Final = ("labels", "picture", "case")
"""What versions of a release usually share; a page shows it once where they do."""


def _inputs(card: Card, names: Collection[str]) -> list[Section]:
    sections = {
        "labels": Section.of("", _labels(card)),
        "picture": Section.of("The picture it sees", _picture(card)),
        "case": Section.of("What it may be given", _taken(card)),
    }
    return [sections[name] for name in names]


def version_view(card: Card, common: Collection[str] = ()) -> tuple[str, list[Section]]:
    """Title and sections of one version; parts named in `common` are shown once for all versions."""
    name, use = card["subgroup"]["name"], card["intended_use"]
    withdrawn = ", WITHDRAWN" if card.get("withdrawn") else ""
    how = Facts(tuple((name, card["how_to_use"][part]) for part, name in _USES.items()))
    sections = (
        Section.of("", use["population"]),
        Section.of("Who it is not for", tuple(use["not_for"])),
        Section.of("How to use an answer", how),
        *_inputs(card, [name for name in _INPUTS if name not in common]),
        Section.of("What is unknown", tuple(card["limits"])),
        Section.of(
            "How it fared in the test",
            *(by_subgroup(card), by_kind(card), _by_class(card), _tones(card)),
            otherwise="Unknown: the bundle holds no test figures that are understood.",
        ),
        Section.of(
            "Fairness",
            *(_fairness(card), _differences(card), *_intersections(card)),
            otherwise="Unknown: the bundle holds no comparison of skin tones.",
        ),
        Section.of("Confidence", _confidence(card), _patterns(card)),
        Section.of("Data", _data(card), _clients(card)),
        Section.of("Where it comes from", _lineage(card, measured(card))),
    )
    title = name if card["version"] is None else f"{name}: version {card['version']}{withdrawn}"
    return title, [one for one in sections if one.parts]


def version_in_short(card: Card, figures: str, more: Sequence[tuple[str, str]]) -> Section:
    """What `show` prints of a version: metrics by subgroup first, then calibration and lineage.

    Args:
        card: of the version.
        figures: who has measured and signed its metrics.
        more: further facts that the registry knows.
    """
    subgroup = card["subgroup"]
    tones = subgroup.get("tones") or ({subgroup["scale"]: subgroup["values"]} if subgroup["values"] else {})
    declared = "".join(f", {scale} {', '.join(values)}" for scale, values in tones.items())
    facts = (_taken(card), _confidence(card), _data(card), _lineage(card, figures), Facts(tuple(more)))
    return Section.of(
        f"version {card['version']} for {subgroup['name']}{declared}",
        card.get("withdrawn"),
        None if card["by_subgroup"] else "no test figures by subgroup",
        by_subgroup(card, _IN_SHORT),
        by_kind(card),
        _tones(card),
        _patterns(card),
        _clients(card),
        Facts(tuple(pair for each in facts if each is not None for pair in each.pairs)),
    )


_environment = cache(environment)


def card_page(card: Mapping[str, Any]) -> str:
    """The page of what `release_card` gives: no script, no font, nothing from elsewhere."""
    versions = card["versions"]
    first = versions[0]
    common = [name for name in _INPUTS if all(one.get(name) == first.get(name) for one in versions)]
    return (
        _environment()
        .get_template("views/card.html")
        .render(
            card=card,
            state=standing(card),
            key=key_figures(versions),
            purpose=first["intended_use"],
            served=_served(card["served"]),
            use=[one for one in _inputs(first, common) if one.parts],
            versions=[version_view(one, common) for one in versions],
        )
    )


def _served(served: Mapping[str, Any] | None) -> str:
    """How far apart the release serves skin tones, in a sentence."""
    if served is None:
        return ""
    if served["untested"]:
        return f"How it serves {', '.join(served['untested'])} was never tested."
    best, worst = served["best"], served["worst"]
    if best is None or worst is None:
        return "How far apart it serves skin tones is unknown: fewer than two have test figures."
    spread = f"{figure(served['value'])} {interval(served['interval'])}".rstrip()
    return (
        f"Each skin tone with the version that answers for it: accuracy is highest for {best['subgroup']}, "
        f"{figure(best['value'])} on {best['n']} pictures, and lowest for {worst['subgroup']}, "
        f"{figure(worst['value'])} on {worst['n']} pictures; they are {spread} apart."
    )


def key_figures(versions: Sequence[Card]) -> Table | None:
    """Sensitivity, specificity and AUROC of each skin tone; None where none of them is known."""
    rows = list(answering(versions))
    known = [
        name for name in (*_KEY, *AT_WORKING_POINT) if any(row.get(name) is not None for *_, row in rows)
    ]
    names = [name for name in known if name != "auroc" or "malignancy_auroc" not in known]
    if not names:
        return None
    return Table.of(
        "How well it answers, by skin tone",
        ("Skin tone", *map(metric_title, names), "Test pictures"),
        tuple(one for subgroup, version, row in rows for one in _key_rows(subgroup, version, row, names)),
        "On test pictures, with 95 % intervals; each skin tone with the version that answers for it.",
    )


def _key_rows(subgroup: str, version: Card, row: Mapping[str, Any], names: Sequence[str]) -> Iterator[Row]:
    """The row of a skin tone, and one for each kind of malignancy."""
    yield Row.of(subgroup, *(cell(row, name) for name in names), _tested_on(row), note=called(version))
    for kind, cells in _kind_cells(version, row, names):
        yield Row.of(f"{subgroup}: {kind}", *cells)
