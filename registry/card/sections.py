"""The card's JSON as tables and lists of facts: what the page shows of one bundle.

Figures as the cells of tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from registry.bundle.counts.score_bins import probability_text
from registry.bundle.labels import SYSTEMS
from registry.bundle.manifest import UNSIGNED
from registry.bundle.metrics.patient import COUNTS, sides, told
from registry.card.sentences import FEW, TOO_FEW, UNKNOWN, count_of, ends_of, interval_of, number_of, percent
from registry.rendering import Cell, Row, Table

MEASURES: Mapping[str, str] = {
    "malignant_sensitivity": "Sensitivity, malignant",
    "malignant_specificity": "Specificity, malignant",
    "malignancy_auroc": "AUROC, malignancy",
    "balanced_accuracy": "Balanced accuracy",
    "sensitivity_at_threshold": "Sensitivity at the working point",
    "specificity_at_threshold": "Specificity at the working point",
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
    "reported": "Share reported",
    "reported_risk": "Wrong among reported",
    "spread": "Spread",
    "spread_standardised": "Spread, one mix of diseases",
    "gap": "Gap",
    "worst": "Worst",
    "variance": "Variance",
    "accuracy_standardised": "Accuracy, one mix of diseases",
    "balanced_accuracy_standardised": "Balanced accuracy, one mix of diseases",
}
"""What figures are called, in the order of columns; others follow under their own names."""

NO_FIGURES = (*COUNTS, "epoch")
"""Numbers of a row that say nothing of how well the model answers."""


def title(name: str) -> str:
    """What a figure is called."""
    return MEASURES.get(name) or name.replace("_", " ")


def figure(value: object) -> str:
    """A number to three places (five where it is small), a count as it is, `unknown` where there is none."""
    number = number_of(value)
    if number is None:
        return UNKNOWN
    if isinstance(number, int):
        return str(number)
    shown = f"{number:.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.5f}"
    return shown.replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """An interval in brackets, `(0.720 to 0.870)`; empty where there is none."""
    return "" if ends is None else f"({figure(float(ends[0]))} to {figure(float(ends[1]))})"


def cell(row: Mapping[str, Any], name: str) -> Cell:
    """One figure of a row with its interval, or why there is none."""
    if number_of(row.get(name)) is None:
        return Cell(told(row, name).words)
    return Cell(figure(row[name]), interval(interval_of(row, name)))


def tested_on(row: Mapping[str, Any]) -> Cell:
    """On how many pictures a row rests, how many of them malignant, marked where they are few."""
    n = count_of(row.get("n"))
    if n is None:
        return Cell(UNKNOWN)
    return Cell(str(n), ", ".join(filter(None, (sides(row), "few" if n < FEW else ""))))


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures that any of the rows has as a number: those known here first, in their order."""
    found = {
        name
        for row in rows
        for name, value in row.items()
        if name not in NO_FIGURES and number_of(value) is not None
    }
    return [*(name for name in MEASURES if name in found), *sorted(found - set(MEASURES))]


def figure_table(
    key: str, caption: str, rows: Mapping[str, Mapping[str, Any]], *, head: str, note: str = ""
) -> Table:
    """A table with one row for each name and one column for each figure that any of them has."""
    columns = columns_of(list(rows.values()))
    return Table(
        key,
        caption,
        (head, "Test pictures", *map(title, columns)),
        tuple(
            Row(name, (tested_on(row), *(cell(row, column) for column in columns)))
            for name, row in rows.items()
        ),
        note,
    )


MEANINGS: Mapping[str, str] = {
    "spread": "best accuracy minus worst",
    "spread_standardised": "the same, as if all subgroups had one mix of diseases",
    "gap": "mean distance of a subgroup's accuracy from that of all others together",
    "worst": "mean over subgroups of the lower of both",
    "variance": "variance of the accuracies",
}

BASES: Mapping[str, str] = {
    "split": "lesions kept apart for it",
    "cross-fitted": "training lesions, each by a model that was not trained on it (cross-fitted)",
}

Facts = list[tuple[str, str]]

_OF_PATIENTS = (
    "Of a tone with too few patients, or none, nothing is promised: the model for everybody answers. The "
    "numbers are lower bounds, since a hospital with few patients of a tone tells nothing of them."
)


def by_subgroup(card: Mapping[str, Any]) -> Table | None:
    """Figures of each subgroup, and of all test pictures together where those are more."""
    rows = dict(card["by_subgroup"])
    total = {**card["metrics"], "intervals": card["intervals"]}
    columns = columns_of(list(rows.values())) or columns_of([total])
    if not rows and not columns:
        return None
    if not any(row.get("n") == total.get("n") for row in rows.values()):
        rows["all together"] = {name: total.get(name) for name in (*COUNTS, "intervals", *columns)}
    return figure_table(
        "subgroups",
        "Test figures by skin tone",
        rows,
        head="Skin tones",
        note="In brackets: 95 % intervals. ECE, MCE and AURC are errors: lower is better.",
    )


def tones(card: Mapping[str, Any]) -> Table | None:
    """The patients behind calibration and test by the skin tones that subgroups name."""
    rows = tuple(
        Row(
            f"{one['tone']} ({one['scale']})",
            (Cell(one["subgroup"]), _patients(one["calibration"]), _patients(one["test"])),
        )
        for one in card["tones"]
    )
    if not rows:
        return None
    header = ("Skin tone", "Subgroup", "Patients in calibration", "Patients in test")
    return Table("tones", "Patients by skin tone", header, rows, _OF_PATIENTS)


def _patients(n: int | None) -> Cell:
    return Cell(TOO_FEW if n is None else f"{n:,}")


def by_class(card: Mapping[str, Any]) -> Table | None:
    """Figures of each disease."""
    rows = card["by_class"]
    names = {label["code"]: f"{label['name']} ({label['code']})" for label in card["labels"]}
    if not rows:
        return None
    named = {names.get(code, code): row for code, row in rows.items()}
    return figure_table("diseases", "Test figures by disease", named, head="Disease")


def fairness(card: Mapping[str, Any]) -> Table | None:
    """How far subgroups are apart."""
    found = card["fairness"] or {}
    rows = tuple(
        Row(title(name), (cell(found, name),), MEANINGS.get(name, "")) for name in columns_of([found])
    )
    if not rows:
        return None
    return Table("fairness", "Fairness over skin tones", ("Figure", "Value"), rows)


def differences(card: Mapping[str, Any]) -> Table | None:
    """Pairs of subgroups, and how sure it is that they differ."""
    found = card["differences"] or []
    rows = tuple(
        Row(
            " − ".join(one["between"]),
            (
                Cell(title(one["figure"])),
                Cell(figure(one.get("value")), interval(ends_of(one.get("interval")))),
                Cell(figure(one.get("p"))),
                Cell(figure(one.get("p_adjusted"))),
            ),
        )
        for one in found
    )
    if not rows:
        return None
    header = ("Subgroups", "Figure", "Difference", "p", "p adjusted")
    note = "p adjusted: for the number of pairs that were compared."
    return Table("differences", "Differences between skin tones", header, rows, note)


def intersections(card: Mapping[str, Any]) -> Iterator[Table]:
    """One table for each further column: skin tones within its values."""
    for place, (column, values) in enumerate((card["intersections"] or {}).items()):
        if not isinstance(values, Mapping):
            continue
        cells = {
            f"{value}, {subgroup}": row if isinstance(row, Mapping) else None
            for value, rows in values.items()
            if isinstance(rows, Mapping)
            for subgroup, row in rows.items()
        }
        columns = columns_of([row for row in cells.values() if row is not None])
        yield Table(
            f"within-{place}",
            f"Skin tones within {column}",
            (column, "Test pictures", *map(title, columns)),
            tuple(
                Row(name, tuple(Cell(TOO_FEW) for _ in range(len(columns) + 1)))
                if row is None
                else Row(name, (tested_on(row), *(cell(row, one) for one in columns)))
                for name, row in cells.items()
            ),
        )


def confidence(card: Mapping[str, Any]) -> Facts:
    """Temperature, prediction sets, abstention and unfamiliar pictures."""
    calibration = card["calibration"]
    temperature, sets, abstention = (calibration[name] for name in ("temperature", "conformal", "abstention"))
    expected, seen = calibration["expected_coverage"], abstention["threshold_bin"] >= sets["threshold_bin"]
    promised = "none" if sets["guarantee"] == "none" else f"{sets['guarantee']}, on {sets['n']} lesions"
    return [
        ("Calibrated on", BASES[calibration["basis"]]),
        (
            "Temperature",
            f"{figure(temperature['value'])}, on {temperature['n']} pictures"
            + (", drawn towards that of everybody" if temperature["shrunk"] else ""),
        ),
        ("Prediction sets: coverage aimed at", percent(1 - sets["alpha"])),
        ("Prediction sets: guarantee", promised),
        (
            "Prediction sets: least expected coverage",
            UNKNOWN if expected is None else percent(round(expected, 3)),
        ),
        ("Prediction sets: smallest probability", probability_text(calibration["set_threshold"])),
        ("Referral: below a probability of", probability_text(calibration["confidence_threshold"])),
        ("Referral: share of wrong answers allowed", percent(abstention["target_risk"])),
        (
            "Referral: share of wrong answers seen",
            UNKNOWN
            if abstention["risk"] is None or not seen
            else f"{percent(round(abstention['risk'], 3))}, on {abstention['n']} pictures",
        ),
        ("Referral: share of wrong answers of new pictures", _risk_promised(abstention, seen=seen)),
        *_unfamiliar(card["out_of_distribution"]),
    ]


def _risk_promised(abstention: Mapping[str, Any], *, seen: bool) -> str:
    """The upper limit of the risk among reported pictures, as a card of any version tells it."""
    high, level = abstention.get("risk_high"), abstention.get("level")
    if high is None or level is None or not seen:
        return "nothing is promised"
    return f"at most {percent(round(high, 3))}, with {percent(level)} confidence"


def data(card: Mapping[str, Any]) -> Facts:
    """How many pictures stand behind the card."""
    counted = card["data"]
    return [
        ("Training pictures", _trained(counted["trained_at_least"])),
        ("Calibration pictures", _count(counted["calibrated"])),
        ("Test pictures", _count(counted["tested"])),
        ("Skin tones without test pictures", ", ".join(counted["absent"]) or "none named"),
    ]


def clients(card: Mapping[str, Any]) -> Table | None:
    """The fingerprint of each client's data."""
    rows = tuple(Row(name, (Cell(text),)) for name, text in card["data"]["clients"].items())
    return Table("clients", "Data trained on", ("Client", "Fingerprint"), rows) if rows else None


def lineage(card: Mapping[str, Any]) -> Facts:
    """Where the model comes from, with every digest."""
    said = card["lineage"]
    return [
        ("Recipe", said["recipe"]),
        ("Seed", str(said["seed"])),
        ("dermfed", said["code_version"]),
        ("Made", said["created"] or "the bundle does not say when"),
        ("Registered", card["registered"] or "in no registry"),
        ("Job", said["job"]),
        ("Fine-tuned from", said["parent"] or "no other bundle"),
        *(("Encoder", encoder(each)) for each in encoders(said["encoder"])),
        ("Figures", measured(card)),
        ("Bundle", card["digest"]),
        ("Model file", f"{card['file']['sha256']}, {card['file']['size']:,} bytes"),
    ]


def measured(card: Mapping[str, Any]) -> str:
    """Who has signed the figures: a key, whose owner a card does not know."""
    key = card.get("measured_by")
    return UNSIGNED if key is None else f"measured and signed by {key}"


def encoders(said: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]]:
    """Each encoder of a lineage: none, one or several."""
    if said is None:
        return ()
    return (said,) if isinstance(said, Mapping) else said


def encoder(said: Mapping[str, Any]) -> str:
    """What an encoder was before the run."""
    licence = said["licence"] or "licence not told"
    return f"{said['name']} from {said['source']} ({licence}), {said['sha256']}"


def picture(card: Mapping[str, Any]) -> Facts:
    """How a picture becomes what the model sees."""
    rule = card["picture"]
    fits = {
        "squash": "both sides are scaled, which distorts pictures that are not square",
        "crop": "the shorter side is scaled and the centre is cut out; the edges are not seen",
    }
    return [
        ("Size", f"{rule['size']} × {rule['size']} pixels; {fits[rule['fit']]}"),
        ("Resized by", f"{rule.get('interpolation', 'bilinear')} interpolation, antialiased"),
        ("Formats", "JPEG, PNG, WebP"),
        ("Largest picture", f"{rule['max_pixels']:,} pixels"),
        ("JPEG scaled by its decoder", "yes" if rule["draft"] else "no"),
        ("Version of the rule", str(rule["version"])),
    ]


def labels(card: Mapping[str, Any]) -> Table:
    """What the model may answer."""
    rows = tuple(
        Row(
            label["name"],
            (
                Cell(label["code"]),
                Cell(label["malignancy"]),
                Cell(_codes_elsewhere(label)),
            ),
        )
        for label in card["labels"]
    )
    return Table("labels", "What it answers with", ("Disease", "Code", "Malignancy", "Codes elsewhere"), rows)


def _codes_elsewhere(label: Mapping[str, Any]) -> str:
    """The codes in other systems, with a mark where a terminologist has to look first."""
    names = {system: name for name, system in SYSTEMS.items()}
    said = (
        f"{names.get(one['system'], one['system'])} {one['code']}"
        + ("" if one["certain"] else " (to be checked)")
        for one in label["codings"]
    )
    return ", ".join(said) or "none"


def _count(found: int | None) -> str:
    return UNKNOWN if found is None else f"{found:,}"


def _trained(least: int | None) -> str:
    return UNKNOWN if least is None else f"at least {least:,}, in the classes that have a Gaussian"


def _unfamiliar(found: Mapping[str, Any] | None) -> Facts:
    if found is None:
        return [("Unfamiliar pictures", "not noticed")]
    threshold = found["threshold"]
    return [
        (
            "Unfamiliar pictures: beyond a distance of",
            "none; nothing is called unfamiliar" if threshold is None else figure(float(threshold)),
        ),
        (
            "Unfamiliar pictures: known ones called so",
            f"{percent(found['rate'])} at most, on {found['n']} lesions",
        ),
        ("Unfamiliar pictures: diseases known", ", ".join(found["classes"])),
        ("Unfamiliar pictures: trained on", f"{found['trained_on']:,} pictures"),
    ]
