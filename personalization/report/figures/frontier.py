"""The fairness-accuracy frontier: the best reachable accuracy by the allowed spread."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from personalization.report.data import FineTuning
from personalization.report.numerals import number
from personalization.report.palette import INK, MUTED, VARIABLES, KeyEntry
from personalization.report.svg import Panel, drawn
from personalization.report.tables.frontier import marked_points, steps_table
from personalization.selection.select import ChosenEpochs

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
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
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
