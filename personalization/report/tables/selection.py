"""The selected epoch of every subgroup, and its cost against the global model and the band alone.

The fairness-accuracy frontier as a table: the selected epochs and the points they are compared with.
"""

from personalization.report.data import FineTuning
from personalization.report.numerals import number, whole
from personalization.report.table import Cell, Row, Table, texts
from personalization.selection.proof import Proof
from personalization.selection.select import ChosenEpochs


def selection_table(fine_tuning: FineTuning) -> Table:
    """One row per subgroup or client: the global model, the selected epoch, the band without the floor."""
    selection = fine_tuning.selection
    alone = selection.band_alone
    rows = []
    for name, epoch in selection.epochs.items():
        start, reached = selection.global_accuracies[name], selection.accuracies[name]
        best = max(fine_tuning.accuracies[name].values())
        cells = [
            Cell(whole(fine_tuning.pictures[name])),
            Cell(number(start, "percent")),
            Cell(str(epoch), "the global model" if epoch == 0 else ""),
            Cell(number(reached, "percent")),
            Cell(number(reached - start, "points")),
            Cell(number(best, "percent")),
        ]
        if selection.proofs:
            cells.append(_shown(selection.proofs.get(name)))
        if alone is not None:
            cells.append(Cell(number(alone.accuracies[name], "percent"), f"epoch {alone.epochs[name]}"))
        rows.append(Row(name, tuple(cells)))
    columns = (
        fine_tuning.per,
        "validation pictures",
        "global model",
        "selected epoch",
        "accuracy there",
        "gain",
        "best of all epochs",
        *(("proof on the same pictures",) if selection.proofs else ()),
        *(("the band without the floor",) if alone is not None else ()),
    )
    return Table("Selected models, on the validation split", columns, tuple(rows))


def _shown(proof: Proof | None) -> Cell:
    """Whether the epoch that the rule chose may take the global model's place, and why."""
    if proof is None:
        return Cell("", "the rule chose the global model")
    return Cell(f"epoch {proof.epoch} {'is taken' if proof.holds else 'is refused'}", proof.reason)


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
