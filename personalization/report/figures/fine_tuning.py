"""Validation accuracy by epoch of fine-tuning, with the selected epoch of every subgroup marked."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from personalization.report.data import FineTuning
from personalization.report.numerals import number
from personalization.report.palette import INK, MUTED, series_colour, series_dash, series_marker
from personalization.report.svg import Panel, drawn
from personalization.report.table import Cell, Row, Table


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
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(xlabel="epoch of fine-tuning (0 is the global model)", ylabel="validation accuracy")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")

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
