"""The section on personal models: accuracy by epoch, the epochs selected, and the price of fairness.

The price is the frontier of accuracy by allowed spread, as a table and as curves, with the selected epochs
and the points that they are compared with.
"""

from typing import Any

from matplotlib.axes import Axes

from personalization.report.data import FineTuning, ReportData
from personalization.report.measures import number, whole
from personalization.report.svg import (
    INK,
    MUTED,
    VARIABLES,
    KeyEntry,
    Panel,
    drawn,
    in_percent,
    in_whole_numbers,
    key_entry,
    series_colour,
    series_dash,
    series_marker,
)
from personalization.selection import ChosenEpochs
from registry.views.tables import Cell, Row, Table


def personal(run: ReportData) -> dict[str, Any] | None:
    """What the section on personal models shows; None where the job does not personalize."""
    if (tuned := run.fine_tuning) is None:
        return None
    own = tuple(tuned.accuracies) if tuned.per == "client" else run.order
    return {
        "of": tuned,
        "key": [key_entry(name, index) for index, name in enumerate(own)],
        "curves": fine_tuning_curves(tuned, own),
        "selected": selection_table(tuned),
        "price_key": frontier_key(tuned),
        "price": frontier_curves(tuned),
        "priced": frontier_table(tuned),
    }


def selection_table(tuned: FineTuning) -> Table:
    """One row per subgroup or client: the global model, the selected epoch, the band without the floor."""
    selection, alone = tuned.selection, tuned.selection.band_alone
    rows = []
    for name, epoch in selection.epochs.items():
        start, reached = selection.global_accuracies[name], selection.accuracies[name]
        cells: list[Cell | str] = [
            whole(tuned.pictures[name]),
            number(start, "percent"),
            Cell(str(epoch), "the global model" if epoch == 0 else ""),
            number(reached, "percent"),
            number(reached - start, "points"),
            number(max(tuned.accuracies[name].values()), "percent"),
        ]
        if selection.proofs:
            proof, shown = selection.proofs.get(name), Cell("", "the rule chose the global model")
            if proof is not None:
                outcome = "is taken" if proof.holds else "is refused"
                shown = Cell(f"epoch {proof.epoch} {outcome}", proof.reason)
            cells.append(shown)
        if alone is not None:
            cells.append(Cell(number(alone.accuracies[name], "percent"), f"epoch {alone.epochs[name]}"))
        rows.append(Row.of(name, *cells))
    columns = (
        *(tuned.per, "validation pictures", "global model", "selected epoch", "accuracy there", "gain"),
        "best of all epochs",
        *(("proof on the same pictures",) if selection.proofs else ()),
        *(("the band without the floor",) if alone is not None else ()),
    )
    return Table.of("Selected models, on the validation split", columns, rows)


def marked_points(tuned: FineTuning) -> dict[str, ChosenEpochs]:
    """The named points, from the smallest spread that the rule allows to every best epoch."""
    alone = tuned.selection.band_alone
    return {
        "smallest spread": tuned.frontier[0],
        "selected": tuned.selection.chosen,
        **({} if alone is None else {"the band without the floor": alone}),
        "every subgroup at its best": tuned.frontier[-1],
        "the global model for all": tuned.all_global,
    }


def frontier_table(tuned: FineTuning) -> Table:
    """Spread, lowest and mean accuracy of the named points; equal points share a row."""
    points = marked_points(tuned)
    names: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, point in points.items():
        names.setdefault(tuple(point.epochs.items()), []).append(name)
    rows = (
        Row.of("; ".join(of), number(points[of[0]].spread, "points"), *_reached(tuned, points[of[0]]))
        for of in names.values()
    )
    columns = ("choice", "spread", *_columns(tuned))
    return Table.of("The price of fairness, on the validation split", columns, rows)


def steps_table(tuned: FineTuning) -> Table:
    """Every step of the frontier."""
    rows = (Row.of(number(step.spread, "points"), *_reached(tuned, step)) for step in tuned.frontier)
    columns = ("spread from", *_columns(tuned))
    return Table.of("The best reachable accuracy by allowed spread", columns, rows)


def _columns(tuned: FineTuning) -> list[str]:
    return ["lowest", "mean", *(f"epoch of {name}" for name in tuned.accuracies)]


def _reached(tuned: FineTuning, point: ChosenEpochs) -> list[str]:
    accuracies = (number(value, "percent") for value in (point.worst, point.mean))
    return [*accuracies, *(str(point.epochs[name]) for name in tuned.accuracies)]


def fine_tuning_curves(tuned: FineTuning, order: tuple[str, ...]) -> Panel:
    """One curve per subgroup; the shaded band runs from the lowest selected accuracy up."""
    selection = tuned.selection
    indices = {name: index for index, name in enumerate(order) if name in tuned.accuracies}

    def draw(axes: Axes) -> None:
        low = selection.chosen.worst
        axes.axhspan(low, low + selection.config.band, color=MUTED, alpha=0.18, linewidth=0)
        for name, index in indices.items():
            epochs, accuracies = zip(*sorted(tuned.accuracies[name].items()), strict=True)
            colour, at = series_colour(index), (selection.epochs[name], selection.accuracies[name])
            axes.plot(epochs, accuracies, color=colour, linestyle=series_dash(index))
            _mark(axes, *at, color=colour, marker=series_marker(index), markersize=8)
        in_whole_numbers(axes.xaxis)
        axes.set(xlabel="epoch of fine-tuning (0 is the global model)", ylabel="validation accuracy")
        in_percent(axes.yaxis)

    rows = (
        Row.of(
            str(epoch),
            *(
                Cell(
                    number(tuned.accuracies[name].get(epoch), "percent"),
                    "selected" if selection.epochs[name] == epoch else "",
                )
                for name in indices
            ),
        )
        for epoch in sorted({epoch for name in indices for epoch in tuned.accuracies[name]})
    )
    title = "Validation accuracy by epoch"
    svg = drawn("fine-tuning", f"{title}. {selection.explanation}", draw, 4.2, 2.9)
    table = Table.of(title, ("epoch", *indices), rows)
    return Panel(title, svg, "Marks: selected epochs. Shaded: the band.", table)


_DASHES = (5, 1.6)  # of the mean, so that the curves are told apart without colour

CURVES = {"worst": "solid", "mean": (0, _DASHES)}
"""What is read off a choice, and how it is drawn."""


def frontier_key(tuned: FineTuning) -> tuple[KeyEntry, ...]:
    """The legend of the two curves, and of those without the floor where that differs."""
    dashes = " ".join(f"{2 * length:g}" for length in _DASHES)
    own = (KeyEntry("lowest", VARIABLES[INK], ""), KeyEntry("mean", VARIABLES[INK], dashes))
    if tuned.frontier_without_floor is None:
        return own
    return (*own, KeyEntry("both without the floor", VARIABLES[MUTED], ""))


def frontier_curves(tuned: FineTuning) -> Panel:
    """Two step curves, with the selected epochs and the global model marked on them."""
    steps, beside = tuned.frontier, tuned.frontier_without_floor
    selected, everywhere = tuned.selection.chosen, tuned.all_global
    band = tuned.selection.config.band
    ends = [point.spread for point in (*steps, *(beside or ()), selected, everywhere)]
    end = 1.08 * max(*ends, min(band, 1.5 * max(ends)), 0.01)

    def draw(axes: Axes) -> None:
        if band <= end:
            axes.axvline(band, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
            places: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate("band", (band, 1), (3, -8), color=MUTED, fontsize=7.5, **places)
        for points, colour, width in ((beside or (), MUTED, 1.0), (steps, INK, 1.8)):
            for name, dashes in CURVES.items() if points else ():
                # A choice holds up to the spread of the next, and the last to the end.
                values = [getattr(point, name) for point in (*points, points[-1])]
                spreads = [*(point.spread for point in points), end]
                axes.step(spreads, values, where="post", color=colour, linewidth=width, linestyle=dashes)
        for name in CURVES:
            _mark(axes, everywhere.spread, getattr(everywhere, name), marker="s", markerfacecolor="none")
            _mark(axes, selected.spread, getattr(selected, name), marker="o", color=INK)
        axes.set(
            xlim=(0, end), xlabel="allowed spread between subgroups, points", ylabel="validation accuracy"
        )
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        in_percent(axes.yaxis)
        axes.margins(y=0.12)

    listed = "; ".join(
        f"{name}: spread {number(point.spread, 'points')}, lowest {number(point.worst, 'percent')}, "
        f"mean {number(point.mean, 'percent')}"
        for name, point in marked_points(tuned).items()
    )
    title = "The price of fairness"
    alternative = f"{title}: the highest lowest and mean validation accuracy by allowed spread. {listed}."
    caption = "Filled circles: the selected epochs. Hollow squares: the global model for all."
    svg = drawn("frontier", alternative, draw, 4.2, 2.9)
    return Panel(title, svg, caption, steps_table(tuned))


def _mark(axes: Axes, at: float, value: float, **style: Any) -> None:
    style = {"markersize": 7, "markeredgecolor": INK, "linestyle": "", **style}
    axes.plot(at, value, clip_on=False, zorder=5, **style)
