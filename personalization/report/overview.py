"""The head of the report: what went wrong, how malignant lesions of each subgroup are found, what changed.

And its last section: what the numbers cannot show, in sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from personalization.report.data import ReportData
from personalization.report.measures import (
    ABSENT,
    ALL,
    MEASURES,
    Figures,
    cell,
    cells,
    compared,
    figures_of,
    has_both_kinds,
    listed,
    number,
    pictures,
    sides,
    unit_of,
    whole,
    with_interval,
)
from personalization.report.subgroups import by_kind, changed
from registry.bundle.labels import UNDECLARED
from registry.bundle.metrics.classification import FEWEST_FOR_AUPRC
from registry.bundle.metrics.intervals import Limits
from registry.bundle.metrics.patient import AT_WORKING_POINT, FIGURES, TOO_FEW, Told, told
from registry.bundle.metrics.summary import summarise
from registry.views.tables import Cell, Row, Table
from training.privacy.noisy_updates import privacy_text


@dataclass(frozen=True)
class Card:
    """One headline of the page.

    Attributes:
        title: what the number is.
        value: the number, large.
        interval: its 95 % interval; may be empty.
        detail: what qualifies it.
        subject: what it is about, such as the subgroup; may be empty.
        beside: further metrics, each with its name.
        alert: whether it is about the worst-served subgroup.
    """

    title: str
    value: str
    interval: str
    detail: str
    subject: str = ""
    beside: tuple[tuple[str, str], ...] = ()
    alert: bool = False


def served_worst(run: ReportData) -> tuple[str, str | None]:
    """By which figure and which subgroup is served worst; None where fewer than two can be compared.

    Malignant sensitivity where two subgroups have it, or else balanced accuracy; the first of equals.
    """
    groups = compared(run.figures)
    tested = [row for row in groups.values() if row["malignant_sensitivity"] is not None]
    key = "malignant_sensitivity" if len(tested) > 1 else "balanced_accuracy"
    values = {name: row[key] for name, row in groups.items() if row[key] is not None}
    return key, min(values, key=values.__getitem__) if len(groups) > 1 else None


def verdict(run: ReportData) -> str:
    """Who is served worst, and whether that may be chance."""
    key, worst = served_worst(run)
    if worst is None:
        return "Fewer than two subgroups have test pictures, so this run says nothing about fairness."
    others = [name for name in compared(run.figures) if name != worst]
    of_others = figures_of((run.blocks[name] for name in others), run.labels)
    less = _limits(told(of_others, key)) - _limits(told(run.figures[worst], key))
    low, high = float(less.low), float(less.high)
    difference = Told(float(less.value), (low, high))
    sentence = (
        f"After the {run.last} stage, {worst} is served worst: {MEASURES[key].title.lower()} is "
        f"{with_interval(told(run.figures[worst], key), 'percent')}, {with_interval(difference, 'points')} "
        f"below that of {'all other subgroups together' if len(others) > 1 else others[0]}."
    )
    if low <= 0:
        return f"{sentence} The interval includes zero: the difference may be chance."
    return f"{sentence} The interval excludes zero."


def _limits(found: Told) -> Limits:
    assert found.interval is not None, "a figure of pictures"
    return Limits(*(np.array(each, np.float64) for each in (found.value, *found.interval)))


def cards(run: ReportData) -> list[Card]:
    """The subgroups, the worst served first, then all pictures and how many are answered."""
    _, worst = served_worst(run)
    others = [] if worst is None else [name for name in compared(run.figures) if name != worst]
    names = [ALL] if worst is None else [worst, *others, ALL]
    return [*(_card(run, name, alert=name == worst) for name in names), *_answered(run)]


def _card(run: ReportData, name: str, *, alert: bool = False) -> Card:
    """The figures that count for a patient, sensitivity large; without malignant classes, accuracies."""
    row, both_kinds = run.figures[name], has_both_kinds(run.labels)
    large, *rest = FIGURES if both_kinds else ("balanced_accuracy", "accuracy")
    found = cell(row, large, "percent")
    return Card(
        MEASURES[large].title,
        found.text,
        found.note,
        f"{pictures(row['n'])}{f': {sides(row)}' if both_kinds else ''}",
        subject=name,
        beside=(
            *_of_kinds(run, row),
            *((_called(key), with_interval(told(row, key), unit_of(key))) for key in rest),
            *(
                (name.capitalize(), with_interval(told(row, key), "percent"))
                for key, name in AT_WORKING_POINT.items()
                if row.get(key) is not None
            ),
        ),
        alert=alert,
    )


def _of_kinds(run: ReportData, row: Figures) -> Iterator[tuple[str, str]]:
    """Sensitivity for each kind of malignancy, where there are several."""
    for kind, of in by_kind(run, row).items():
        text = TOO_FEW
        if of is not None:
            text = f"{with_interval(told(of, 'malignant_sensitivity'), 'percent')} of {whole(of['n'])}"
        yield f"Sensitivity, {kind}", text


def _called(key: str) -> str:
    name = FIGURES.get(key, key)
    return name[0].upper() + name[1:]


def _answered(run: ReportData) -> Iterator[Card]:
    if len(run.answered_by) < len(run.blocks):
        return
    row = run.figures[ALL]
    found = cell(row, "answered", "percent")
    detail = "something is concluded, or triage calls it urgent or rules it out"
    beside = {"Something concluded": "reported", "Wrong among conclusions": "reported_risk"}
    texts = tuple((name, with_interval(told(row, key), "percent")) for name, key in beside.items())
    yield Card("Answered", found.text, found.note, detail, beside=texts)


def unchanged(run: ReportData) -> str:
    """The stages that changed no answer, in a sentence; empty where all did."""
    stages = [stage for stage in run.counts if stage not in changed(run.counts)]
    return f"No answer was changed by {listed(stages)}." if stages else ""


def spread_table(run: ReportData) -> Table:
    """Accuracy and its spread after each stage that changed an answer."""
    rows = []
    for stage in changed(run.counts):
        figures = run.tested[stage]
        groups = compared(figures)
        fairness: Figures = {}
        lowest = Cell(ABSENT)
        if len(groups) > 1:
            blocks = {name: run.counts[stage][name] for name in groups}
            fairness = summarise(blocks, run.labels, list(groups))["fairness"]
            worst = min(groups, key=lambda name: groups[name]["accuracy"])
            found = cell(groups[worst], "accuracy", "percent")
            lowest = Cell(found.text, f"{worst}; {found.note}")
        variance = fairness.get("variance")
        rows.append(
            Row.of(
                stage,
                *cells(figures[ALL], ("accuracy", "balanced_accuracy"), "percent"),
                lowest,
                *cells(fairness, ("spread", "spread_standardised", "gap"), "points"),
                number(None) if variance is None else f"{variance:.5f}",
            )
        )
    columns = (
        *("after stage", "accuracy", "balanced accuracy", "lowest subgroup"),
        *("spread", "spread, one disease mix", "mean gap", "variance"),
    )
    return Table.of("Accuracy and its spread after each stage, on the test split", columns, rows)


FEW = 30
"""Subgroups with fewer test pictures are named among the limits; their figures are shown all the same."""


def limits(run: ReportData) -> Iterator[str]:
    """The sentences that hold for every report, then those that hold for this one."""
    yield (
        "The figures are of this run's test split. They are no clinical validation: another hospital, camera "
        "or population can give others."
    )
    yield (
        "Subgroups hold different people with different diseases. A spread mixes how well a model serves a "
        "subgroup with how hard its cases are; the spread at one mix of diseases takes out the second only "
        "as far as the classes tell."
    )
    yield (
        "Intervals are of 95 %, computed from the sums that hospitals told, and allow for several pictures "
        "of a lesion; most are wider than they need be. They do not contain what training again would "
        "change. What noise adds to a distance, such as a spread or a calibration error, is taken off its "
        "lower end. "
        "A spread is never below 0, so its interval says how large it may be, not whether there is one. The "
        "worst subgroup is picked after looking, so its distance from the others is overstated where "
        f"subgroups are small. AUPRC is told of diseases with at least {FEWEST_FOR_AUPRC} test pictures."
    )
    if any(block.lesions is None for block in run.counts[run.last].values()):
        yield "Intervals take every picture for a lesion of its own: the counts do not tell lesions."
    yield from privacy_text(run.summary.get("privacy", {}))
    if run.smallest_cell > 1:
        yield (
            f"Scores of fewer than {run.smallest_cell} patients of a subgroup at one client are counted "
            "together, so that AUROC, AUPRC, calibration error and curves of small subgroups are coarse. "
            "Accuracies, and what thresholds come to, are counted exactly."
        )
    groups = compared(run.figures)
    if few := [f"{name} ({row['n']})" for name, row in groups.items() if row["n"] < FEW]:
        yield (
            f"Fewer than {FEW} test pictures: {listed(few)}. Their figures can be far off, and their "
            "calibration error is overstated."
        )
    if groups and UNDECLARED in run.figures:
        yield (
            f"{pictures(run.figures[UNDECLARED]['n'])} of undeclared subgroup count in every total and in "
            "no comparison of subgroups."
        )
    if run.fine_tuning is not None:
        yield (
            "Epochs are chosen on the validation split, and the price of fairness is read off there: on new "
            "pictures accuracies are lower than those chosen, and spreads are wider."
        )
    if without := [model.subgroup for model in run.calibration if not model.conformal.guaranteed]:
        yield (
            f"Too few calibration pictures to promise a coverage: {listed(without)}. Prediction sets there "
            "hold every class."
        )
    if run.calibration:
        yield (
            "A promised coverage holds on average over calibration splits, for pictures drawn like these and "
            "one picture per lesion; on one test split it is met within the width of its interval."
        )
