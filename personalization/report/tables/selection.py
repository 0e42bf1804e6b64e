"""The selected epoch of every subgroup, and its cost against the global model and the band alone."""

from personalization.report.data import FineTuning
from personalization.report.numerals import number, whole
from personalization.report.table import Cell, Row, Table
from personalization.selection.proof import Proof


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
