"""The section on personal models: accuracy by epoch, the epochs selected, and the price of fairness.

The price is the frontier of accuracy by allowed spread, as a table and as curves, with the selected epochs
and the points that they are compared with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from personalization.report.data import FineTuning
from personalization.report.measures import Cell, Row, Table, number, texts, whole
from personalization.report.svg import (
    INK,
    MUTED,
    VARIABLES,
    KeyEntry,
    Panel,
    drawn,
    in_percent,
    in_whole_numbers,
    series_colour,
    series_dash,
    series_marker,
)
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


def fine_tuning_curves(fine_tuning: FineTuning, order: tuple[str, ...]) -> Panel:
    """One curve per subgroup; the shaded band runs from the lowest selected accuracy up."""
    selection = fine_tuning.selection
    subgroups = [name for name in order if name in fine_tuning.accuracies]

    def draw(axes: Axes) -> None:
        low = selection.chosen.worst
        axes.axhspan(low, low + selection.config.band, color=MUTED, alpha=0.18, linewidth=0)
        for name in subgroups:
            index = order.index(name)
            epochs, accuracies = zip(*sorted(fine_tuning.accuracies[name].items()), strict=True)
            axes.plot(epochs, accuracies, color=series_colour(index), linestyle=series_dash(index))
            axes.plot(
                selection.epochs[name],
                selection.accuracies[name],
                color=series_colour(index),
                marker=series_marker(index),
                markersize=8,
                markeredgecolor=INK,
                clip_on=False,
                zorder=5,
            )
        in_whole_numbers(axes.xaxis)
        axes.set(xlabel="epoch of fine-tuning (0 is the global model)", ylabel="validation accuracy")
        in_percent(axes.yaxis)

    epochs = sorted({epoch for name in subgroups for epoch in fine_tuning.accuracies[name]})
    table = Table(
        "Validation accuracy by epoch",
        ("epoch", *subgroups),
        tuple(
            Row(
                str(epoch),
                tuple(
                    Cell(
                        number(fine_tuning.accuracies[name].get(epoch), "percent"),
                        "selected" if selection.epochs[name] == epoch else "",
                    )
                    for name in subgroups
                ),
            )
            for epoch in epochs
        ),
    )
    svg = drawn(
        "fine-tuning", f"Validation accuracy by epoch. {selection.explanation}", draw, width=4.2, height=2.9
    )
    return Panel("Validation accuracy by epoch", svg, "Marks: selected epochs. Shaded: the band.", table)


_DASHES = (5, 1.6)  # of the mean, so that the curves are told apart without colour

CURVES: tuple[tuple[Callable[[ChosenEpochs], float], str | tuple[int, tuple[float, ...]]], ...] = (
    (lambda point: point.worst, "solid"),
    (lambda point: point.mean, (0, _DASHES)),
)
"""What is read off a choice, and how it is drawn."""

_BESIDE_A_LINE: Mapping[str, Any] = {
    "color": MUTED,
    "fontsize": 7.5,
    "xycoords": ("data", "axes fraction"),
    "textcoords": "offset points",
}


def frontier_key(fine_tuning: FineTuning) -> tuple[KeyEntry, ...]:
    """The legend of the two curves, and of those without the floor where that differs."""
    dashes = " ".join(f"{2 * length:g}" for length in _DASHES)
    own = (KeyEntry("lowest", VARIABLES[INK], ""), KeyEntry("mean", VARIABLES[INK], dashes))
    if fine_tuning.frontier_without_floor is None:
        return own
    return (*own, KeyEntry("both without the floor", VARIABLES[MUTED], ""))


def frontier_curves(fine_tuning: FineTuning) -> Panel:
    """Two step curves, with the selected epochs and the global model marked on them."""
    steps, beside = fine_tuning.frontier, fine_tuning.frontier_without_floor
    selected, everywhere = fine_tuning.selection.chosen, fine_tuning.all_global
    band = fine_tuning.selection.config.band
    ends = [point.spread for point in (*steps, *(beside or ()), selected, everywhere)]
    end = 1.08 * max(*ends, min(band, 1.5 * max(ends)), 0.01)

    def draw(axes: Axes) -> None:
        if band <= end:
            axes.axvline(band, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
            axes.annotate("band", (band, 1), (3, -8), **_BESIDE_A_LINE)
        for points, colour, width in ((beside or (), MUTED, 1.0), (steps, INK, 1.8)):
            for read, dashes in CURVES:
                _steps(axes, points, read, end, color=colour, linewidth=width, linestyle=dashes)
        for read, _ in CURVES:
            _mark(axes, everywhere.spread, read(everywhere), marker="s", markerfacecolor="none")
            _mark(axes, selected.spread, read(selected), marker="o", color=INK)
        axes.set(
            xlim=(0, end), xlabel="allowed spread between subgroups, points", ylabel="validation accuracy"
        )
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        in_percent(axes.yaxis)
        axes.margins(y=0.12)

    listed = "; ".join(
        f"{name}: spread {number(point.spread, 'points')}, lowest {number(point.worst, 'percent')}, "
        f"mean {number(point.mean, 'percent')}"
        for name, point in marked_points(fine_tuning).items()
    )
    title = "The price of fairness"
    alternative = f"{title}: the highest lowest and mean validation accuracy by allowed spread. {listed}."
    caption = "Filled circles: the selected epochs. Hollow squares: the global model for all."
    svg = drawn("frontier", alternative, draw, width=4.2, height=2.9)
    return Panel(title, svg, caption, steps_table(fine_tuning))


def _steps(
    axes: Axes,
    points: Sequence[ChosenEpochs],
    read: Callable[[ChosenEpochs], float],
    end: float,
    **style: Any,
) -> None:
    """A curve that holds each choice up to the spread of the next, and the last to the end."""
    if points:
        values = [read(point) for point in points]
        axes.step([*(point.spread for point in points), end], [*values, values[-1]], where="post", **style)


def _mark(axes: Axes, at: float, value: float, **style: Any) -> None:
    axes.plot(at, value, markersize=7, markeredgecolor=INK, clip_on=False, zorder=5, linestyle="", **style)
