"""The fairness-accuracy frontier as a table: the selected epochs and the points they are compared with."""

from personalization.report.data import FineTuning
from personalization.report.numerals import number
from personalization.report.table import Row, Table, texts
from personalization.selection.select import ChosenEpochs


def marked_points(fine_tuning: FineTuning) -> dict[str, ChosenEpochs]:
    """The named points, from the smallest spread that the rule allows to every best epoch."""
    selection = fine_tuning.selection
    steps = fine_tuning.frontier
    named = {"smallest spread": steps[0], "selected": selection.chosen}
    if selection.band_alone is not None:
        named["the band without the floor"] = selection.band_alone
    named["every subgroup at its best"] = steps[-1]
    named["the global model for all"] = fine_tuning.all_global
    return named


def frontier_table(fine_tuning: FineTuning) -> Table:
    """Spread, lowest and mean accuracy of the named points; equal points share a row."""
    rows: dict[tuple[tuple[str, int], ...], list[str]] = {}
    points = marked_points(fine_tuning)
    for name, point in points.items():
        rows.setdefault(tuple(point.epochs.items()), []).append(name)
    units = list(fine_tuning.accuracies)
    return Table(
        "The price of fairness, on the validation split",
        ("choice", "spread", "lowest", "mean", *(f"epoch of {name}" for name in units)),
        tuple(_row("; ".join(names), points[names[0]], units) for names in rows.values()),
    )


def steps_table(fine_tuning: FineTuning) -> Table:
    """Every step of the frontier."""
    units = list(fine_tuning.accuracies)
    return Table(
        "The best reachable accuracy by allowed spread",
        ("spread from", "lowest", "mean", *(f"epoch of {name}" for name in units)),
        tuple(
            Row(
                number(step.spread, "points"),
                texts(
                    number(step.worst, "percent"),
                    number(step.mean, "percent"),
                    *(str(step.epochs[name]) for name in units),
                ),
            )
            for step in fine_tuning.frontier
        ),
    )


def _row(name: str, point: ChosenEpochs, units: list[str]) -> Row:
    cells = texts(
        number(point.spread, "points"),
        number(point.worst, "percent"),
        number(point.mean, "percent"),
        *(str(point.epochs[unit]) for unit in units),
    )
    return Row(name, cells)
