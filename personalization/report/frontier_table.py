"""The price of fairness in a few rows: what was selected, beside the choices that it is measured against."""

from personalization.report.data import FineTuning
from personalization.report.numerals import number
from personalization.report.tables import Row, Table, texts
from personalization.selection import Choice


def marked_choices(fine_tuning: FineTuning) -> dict[str, Choice]:
    """The choices that have a name, from the smallest spread that the rule allows to every best epoch."""
    selection = fine_tuning.selection
    steps = fine_tuning.frontier
    named = {"smallest spread": steps[0], "selected": selection.choice}
    if selection.band_alone is not None:
        named["the band without the floor"] = selection.band_alone
    named["every subgroup at its best"] = steps[-1]
    named["the global model for all"] = fine_tuning.all_global
    return named


def frontier_table(fine_tuning: FineTuning) -> Table:
    """Spread, lowest and mean accuracy of the named choices; choices that are the same share a row."""
    rows: dict[tuple[tuple[str, int], ...], list[str]] = {}
    choices = marked_choices(fine_tuning)
    for name, choice in choices.items():
        rows.setdefault(tuple(choice.epochs.items()), []).append(name)
    units = list(fine_tuning.accuracies)
    return Table(
        "The price of fairness, on the validation split",
        ("choice", "spread", "lowest", "mean", *(f"epoch of {name}" for name in units)),
        tuple(_row("; ".join(names), choices[names[0]], units) for names in rows.values()),
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


def _row(name: str, choice: Choice, units: list[str]) -> Row:
    cells = texts(
        number(choice.spread, "points"),
        number(choice.worst, "percent"),
        number(choice.mean, "percent"),
        *(str(choice.epochs[unit]) for unit in units),
    )
    return Row(name, cells)
