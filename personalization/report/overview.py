"""The head of the report: what went wrong, how malignant lesions of each subgroup are found, what changed.

And its last section: what the numbers cannot show, in sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from personalization.report.calibration import decided, routes
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import (
    ALL,
    BY_KEY,
    Cell,
    Estimate,
    Malignant,
    Row,
    Table,
    Unit,
    cell,
    compared,
    estimate,
    estimate_over,
    interval,
    listed,
    number,
    pictures,
    sides,
    total,
    whole,
    with_interval,
)
from personalization.report.patients import by_kind, changed, kinds_table, patient_table, why_absent
from registry.bundle.counts.counting import Block
from registry.bundle.labels import UNDECLARED, Label, kinds_of, malignant_classes
from registry.bundle.metrics.classification import FEWEST_FOR_AUPRC, accuracy
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.patient import AT_WORKING_POINT, FIGURES, TOO_FEW
from registry.bundle.metrics.summary import limits_of
from training.privacy.dp.updates import privacy_text


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


@dataclass(frozen=True)
class Overview:
    """The content of the page's head.

    Attributes:
        findings: what went wrong, in sentences.
        verdict: who is served worst.
        cards: the subgroups, the worst served first, then all pictures and how many are answered.
        patient: what counts for a patient, after each stage that changed an answer.
        kinds: the same by kind of malignancy, after the last stage; None where there is one kind.
        unchanged: the stages that changed none, in a sentence; empty where all did.
        stages: accuracy and its spread after each stage.
    """

    findings: tuple[str, ...]
    verdict: str
    cards: tuple[Card, ...]
    patient: Table
    kinds: Table | None
    unchanged: str
    stages: Table


def overview(data: ReportData) -> Overview:
    """The overview of the last stage's models."""
    last = list(data.counts)[-1]
    blocks, malignant = data.counts[last], malignant_classes(data.labels)
    told = changed(data.counts)
    unchanged = [stage for stage in data.counts if stage not in told]
    groups = compared(blocks)
    return Overview(
        findings=tuple(one["text"] for one in data.summary.get("findings", ())),
        verdict=_verdict(last, groups, malignant),
        cards=(
            *_subgroup_cards(groups, data.labels),
            _card(ALL, blocks, data.labels),
            *_answered(blocks, data.calibration),
        ),
        patient=patient_table(data),
        kinds=kinds_table(data),
        unchanged=f"No answer was changed by {listed(unchanged)}." if unchanged else "",
        stages=_stages(told),
    )


def judged_by(groups: Mapping[str, Block], malignant: Malignant) -> str:
    """The figure that says who is served worst: malignant sensitivity where two subgroups have it."""
    key = "malignant_sensitivity"
    tested = [name for name, block in groups.items() if estimate(key, block, malignant).value is not None]
    return key if len(tested) > 1 else "balanced_accuracy"


def worst_served(groups: Mapping[str, Block], malignant: Malignant) -> str:
    """The subgroup whose malignant lesions are found least often; the first of equals."""
    key = judged_by(groups, malignant)
    values = {name: estimate(key, block, malignant).value for name, block in groups.items()}
    return min((name for name in groups if values[name] is not None), key=lambda name: values[name] or 0.0)


def _verdict(stage: str, groups: Mapping[str, Block], malignant: Malignant) -> str:
    if len(groups) < 2:
        return "Fewer than two subgroups have test pictures, so this run says nothing about fairness."
    key, worst = judged_by(groups, malignant), worst_served(groups, malignant)
    others = {name: block for name, block in groups.items() if name != worst}
    of_worst, of_others = (limits_of(key, sample_of(of), malignant) for of in (groups[worst], total(others)))
    difference = Estimate.of(of_others - of_worst)
    found = with_interval(Estimate.of(of_worst), "percent")
    sentence = (
        f"After the {stage} stage, {worst} is served worst: {BY_KEY[key].title.lower()} is {found}, "
        f"{with_interval(difference, 'points')} below that of "
        f"{'all other subgroups together' if len(others) > 1 else next(iter(others))}."
    )
    if difference.low is None or difference.high is None:
        return f"{sentence} It has no interval and may be chance."
    if difference.low <= 0:
        return f"{sentence} The interval includes zero: the difference may be chance."
    return f"{sentence} The interval excludes zero."


def _subgroup_cards(groups: Mapping[str, Block], labels: Sequence[Label]) -> tuple[Card, ...]:
    if len(groups) < 2:
        return ()
    worst = worst_served(groups, malignant_classes(labels))
    order = [worst, *(name for name in groups if name != worst)]
    return tuple(_card(name, {name: groups[name]}, labels, alert=name == worst) for name in order)


def _card(name: str, blocks: Mapping[str, Block], labels: Sequence[Label], *, alert: bool = False) -> Card:
    """The figures that count for a patient, sensitivity large; without malignant classes, accuracies."""
    malignant = malignant_classes(labels)
    block, both_kinds = total(blocks), malignant.any() and not malignant.all()
    large, *rest = FIGURES if both_kinds else ("balanced_accuracy", "accuracy")
    found = estimate(large, block, malignant)
    n_malignant, n_other = sides(block, malignant)
    told = f"{whole(n_malignant)} malignant, {whole(n_other)} other" if both_kinds else ""
    return Card(
        BY_KEY[large].title,
        number(found.value, "percent") if found.value is not None else why_absent(large, block, malignant),
        interval(found, "percent"),
        f"{pictures(int(block.point.n))}{f': {told}' if told else ''}",
        subject=name,
        beside=(
            *_of_kinds(block, labels),
            *((_called(key), _beside(key, block, malignant)) for key in rest),
            *_at_working_point(blocks),
        ),
        alert=alert,
    )


def _of_kinds(block: Block, labels: Sequence[Label]) -> Iterator[tuple[str, str]]:
    """Sensitivity for each kind of malignancy, where there are several."""
    for kind, found in by_kind(block, kinds_of(labels)).items():
        value = Estimate.in_summary(found or {}, "malignant_sensitivity")
        text = TOO_FEW if found is None else f"{with_interval(value, 'percent')} of {whole(found['n'])}"
        yield f"Sensitivity, {kind}", text


def _at_working_point(blocks: Mapping[str, Block]) -> tuple[tuple[str, str], ...]:
    """Sensitivity and specificity at the working point, where pictures were counted at one."""
    figures = decided(blocks)
    return tuple(
        (name.capitalize(), with_interval(Estimate.in_summary(figures, key), "percent"))
        for key, name in AT_WORKING_POINT.items()
        if figures.get(key) is not None
    )


def _called(key: str) -> str:
    name = FIGURES.get(key, key)
    return name[0].upper() + name[1:]


def _beside(key: str, block: Block, malignant: Malignant) -> str:
    unit: Unit = "percent" if BY_KEY[key].percent else "ratio"
    found = estimate(key, block, malignant)
    return why_absent(key, block, malignant) if found.value is None else with_interval(found, unit)


def _answered(blocks: Mapping[str, Block], models: Sequence[CalibratedModel]) -> tuple[Card, ...]:
    if len(routes(models, blocks)) < len(blocks):
        return ()
    figures = decided(blocks)
    found, concluded, of_them = (
        Estimate.in_summary(figures, key) for key in ("answered", "reported", "reported_risk")
    )
    detail = "something is concluded, or triage calls it urgent or rules it out"
    beside = (
        ("Something concluded", with_interval(concluded, "percent")),
        ("Wrong among conclusions", with_interval(of_them, "percent")),
    )
    return (
        Card("Answered", number(found.value, "percent"), interval(found, "percent"), detail, beside=beside),
    )


def _stages(counts: Mapping[str, Mapping[str, Block]]) -> Table:
    rows = []
    for stage, blocks in counts.items():
        everything, groups = total(blocks), compared(blocks)
        cells = [cell(estimate(key, everything), "percent") for key in ("accuracy", "balanced_accuracy")]
        if len(groups) > 1:
            worst = min(groups, key=lambda name: float(accuracy(groups[name].point)))
            lowest = estimate("accuracy", groups[worst])
            cells.append(Cell(number(lowest.value, "percent"), f"{worst}; {interval(lowest, 'percent')}"))
        else:
            cells.append(Cell(number(None)))
        cells += [
            cell(estimate_over(key, groups), "points") for key in ("spread", "spread_standardised", "gap")
        ]
        variance = estimate_over("variance", groups) if groups else Estimate(None)
        cells.append(Cell(f"{variance.value:.5f}" if variance.value is not None else number(None)))
        rows.append(Row(stage, tuple(cells)))
    columns = (
        "after stage",
        "accuracy",
        "balanced accuracy",
        "lowest subgroup",
        "spread",
        "spread, one disease mix",
        "mean gap",
        "variance",
    )
    return Table("Accuracy and its spread after each stage, on the test split", columns, tuple(rows))


FEW = 30
"""Subgroups with fewer test pictures are named among the limits; their figures are shown all the same."""


def limits(data: ReportData) -> tuple[str, ...]:
    """The sentences that hold for every report, then those that hold for this one."""
    blocks = data.counts[list(data.counts)[-1]]
    groups = compared(blocks)
    sentences = [
        "The figures are of this run's test split. They are no clinical validation: another hospital, camera "
        "or population can give others.",
        "Subgroups hold different people with different diseases. A spread mixes how well a model serves a "
        "subgroup with how hard its cases are; the spread at one mix of diseases takes out the second only "
        "as far as the classes tell.",
    ]
    sentences.append(
        "Intervals are of 95 %, computed from the sums that hospitals told, and allow for several pictures "
        "of a lesion; most are wider than they need be. They do not contain what training again would "
        "change. What noise adds to a distance, such as a spread or a calibration error, is taken off its "
        "lower end. "
        "A spread is never below 0, so its interval says how large it may be, not whether there is one. The "
        "worst subgroup is picked after looking, so its distance from the others is overstated where "
        f"subgroups are small. AUPRC is told of diseases with at least {FEWEST_FOR_AUPRC} test pictures."
    )
    if any(block.lesions is None for block in blocks.values()):
        sentences.append(
            "Intervals take every picture for a lesion of its own: the counts do not tell lesions."
        )
    sentences.extend(privacy_text(data.summary.get("privacy", {})))
    if data.smallest_cell > 1:
        sentences.append(
            f"Scores of fewer than {data.smallest_cell} patients of a subgroup at one client are counted "
            "together, so that AUROC, AUPRC, calibration error and curves of small subgroups are coarse. "
            "Accuracies, and what thresholds come to, are counted exactly."
        )
    few = [f"{name} ({int(block.point.n)})" for name, block in groups.items() if int(block.point.n) < FEW]
    if few:
        sentences.append(
            f"Fewer than {FEW} test pictures: {listed(few)}. Their figures can be far off, and their "
            "calibration error is overstated."
        )
    if groups and UNDECLARED in blocks and int(blocks[UNDECLARED].point.n):
        sentences.append(
            f"{pictures(int(blocks[UNDECLARED].point.n))} of undeclared subgroup count in every total and in "
            "no comparison of subgroups."
        )
    if data.fine_tuning is not None:
        sentences.append(
            "Epochs are chosen on the validation split, and the price of fairness is read off there: on new "
            "pictures accuracies are lower than those chosen, and spreads are wider."
        )
    without = [model.subgroup for model in data.calibration if not model.conformal.guaranteed]
    if without:
        sentences.append(
            f"Too few calibration pictures to promise a coverage: {listed(without)}. Prediction sets there "
            "hold every class."
        )
    if data.calibration:
        sentences.append(
            "A promised coverage holds on average over calibration splits, for pictures drawn like these and "
            "one picture per lesion; on one test split it is met within the width of its interval."
        )
    return tuple(sentences)
