"""The head of the report: the worst-served subgroup, the spread between subgroups, what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from personalization.report import served
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import BY_KEY, Estimate, compared, estimate, estimate_over, total
from personalization.report.numerals import interval, number, pictures, with_interval
from personalization.report.table import Cell, Row, Table, cell
from registry.bundle.counts.count import Block
from registry.bundle.metrics.classification import accuracy
from registry.bundle.metrics.estimate import limits_of
from registry.bundle.metrics.sample import sample_of


@dataclass(frozen=True)
class Card:
    """One headline number of the page.

    Attributes:
        title: what it is.
        value: the number, large.
        interval: its 95 % interval; may be empty.
        detail: what qualifies it.
        subject: whom it is about, such as the subgroup; may be empty.
    """

    title: str
    value: str
    interval: str
    detail: str
    subject: str = ""


@dataclass(frozen=True)
class Overview:
    """The content of the page's head."""

    verdict: str
    cards: tuple[Card, ...]
    stages: Table


def overview(data: ReportData) -> Overview:
    """The overview of the last stage's models."""
    last = list(data.counts)[-1]
    blocks = data.counts[last]
    groups = compared(blocks)
    cards = _fairness_cards(groups) if len(groups) > 1 else ()
    cards += (_all_pictures(blocks), *_discrimination(blocks), *_referral(blocks, data.calibration))
    return Overview(_verdict(last, groups), cards, _stages(data.counts))


def worst_served(groups: Mapping[str, Block]) -> str:
    """The subgroup of lowest accuracy; the first of equals."""
    return min(groups, key=lambda name: float(accuracy(groups[name].point)))


def _verdict(stage: str, groups: Mapping[str, Block]) -> str:
    if len(groups) < 2:
        return "Fewer than two subgroups have test pictures, so this run says nothing about fairness."
    worst = worst_served(groups)
    others = {name: block for name, block in groups.items() if name != worst}

    of_worst, of_others = (limits_of("accuracy", sample_of(of)) for of in (groups[worst], total(others)))
    difference = Estimate.of(of_others - of_worst)
    sentence = (
        f"After the {stage} stage, {worst} is served worst: {with_interval(difference, 'points')} below "
        f"{'all other subgroups together' if len(others) > 1 else next(iter(others))} in accuracy."
    )
    if difference.low is None or difference.high is None:
        return f"{sentence} It has no interval and may be chance."
    if difference.low <= 0:
        return f"{sentence} The interval includes zero: the difference may be chance."
    return f"{sentence} The interval excludes zero."


def _fairness_cards(groups: Mapping[str, Block]) -> tuple[Card, ...]:
    worst = worst_served(groups)
    best = max(groups, key=lambda name: float(accuracy(groups[name].point)))
    at_worst, at_best = (estimate("accuracy", groups[name]) for name in (worst, best))
    apart = estimate_over("spread", groups)
    standardised = estimate_over("spread_standardised", groups)
    return (
        Card(
            "Worst-served subgroup",
            number(at_worst.value, "percent"),
            interval(at_worst, "percent"),
            f"accuracy on {pictures(int(groups[worst].point.n))}; balanced accuracy "
            f"{number(estimate('balanced_accuracy', groups[worst]).value, 'percent')}",
            subject=worst,
        ),
        Card(
            "Spread between subgroups",
            number(apart.value, "points"),
            interval(apart, "points"),
            f"accuracy from {number(at_worst.value, 'percent')} ({worst}) to "
            f"{number(at_best.value, 'percent')} ({best}); {number(standardised.value, 'points')} "
            "at one mix of diseases",
        ),
    )


def _all_pictures(blocks: Mapping[str, Block]) -> Card:
    everything = total(blocks)
    found = estimate("accuracy", everything)
    balanced = number(estimate("balanced_accuracy", everything).value, "percent")
    return Card(
        "All pictures",
        number(found.value, "percent"),
        interval(found, "percent"),
        f"accuracy on {pictures(int(everything.point.n))}; balanced accuracy {balanced}",
    )


def _discrimination(blocks: Mapping[str, Block]) -> tuple[Card, ...]:
    for key in ("malignancy_auroc", "auroc"):
        found = estimate(key, total(blocks))
        if found.value is not None:
            return (Card(BY_KEY[key].title, number(found.value), interval(found), BY_KEY[key].meaning),)
    return ()


def _referral(blocks: Mapping[str, Block], models: Sequence[CalibratedModel]) -> tuple[Card, ...]:
    answered_by = served.routes(models, blocks)
    if len(answered_by) < len(blocks):
        return ()
    referred, wrong = (figure(answered_by, blocks) for figure in (served.referred, served.wrong))
    detail = (
        "every picture goes to a clinician"
        if wrong.value is None
        else f"of the answers given, {with_interval(wrong, 'percent')} are wrong"
    )
    return (Card("Referred", number(referred.value, "percent"), interval(referred, "percent"), detail),)


def _stages(counts: Mapping[str, Mapping[str, Block]]) -> Table:
    rows = []
    for stage, blocks in counts.items():
        everything, groups = total(blocks), compared(blocks)
        cells = [cell(estimate(key, everything), "percent") for key in ("accuracy", "balanced_accuracy")]
        if len(groups) > 1:
            worst = worst_served(groups)
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
    return Table("What each stage changed, on the test split", columns, tuple(rows))
