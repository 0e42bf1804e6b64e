"""Loss and balanced accuracy per round, over all pictures and by subgroup.

Validation accuracy by epoch of fine-tuning, with the selected epoch of every subgroup marked.

The fraction of unlabelled pictures whose pseudo label passed the confidence threshold, by round.

The fairness-accuracy frontier: the best reachable accuracy by the allowed spread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from personalization.report.data import FineTuning, Round
from personalization.report.numerals import Unit, number, whole
from personalization.report.svg import (
    INK,
    MUTED,
    VARIABLES,
    KeyEntry,
    Panel,
    drawn,
    series_colour,
    series_dash,
    series_marker,
)
from personalization.report.table import Cell, Row, Table, texts
from personalization.report.tables.selection import marked_points, steps_table
from personalization.selection.select import ChosenEpochs

Points = list[tuple[int, float]]


def learning_curves(rounds: Sequence[Round], order: tuple[str, ...]) -> tuple[Panel, ...]:
    """One panel of loss and one of balanced accuracy for every stage that measured them."""
    panels = []
    for stage in dict.fromkeys(entry.stage for entry in rounds):
        of_stage = [entry for entry in rounds if entry.stage == stage]
        for key, title in (("loss", "Loss"), ("balanced_accuracy", "Balanced accuracy")):
            overall = _points([(entry.round, _overall(entry, key)) for entry in of_stage])
            by_subgroup = {
                name: _points([(entry.round, entry.by_subgroup.get(name, {}).get(key)) for entry in of_stage])
                for name in order
            }
            if overall or any(by_subgroup.values()):
                panels.append(_panel(stage, key, title, overall, by_subgroup))
    return tuple(panels)


def _overall(entry: Round, key: str) -> float | None:
    return entry.loss if key == "loss" else entry.metrics.get(key)


def _points(pairs: list[tuple[int, float | None]]) -> Points:
    return [(round_number, value) for round_number, value in pairs if value is not None]


def _panel(stage: str, key: str, title: str, overall: Points, by_subgroup: dict[str, Points]) -> Panel:
    curves = {"all pictures": overall, **by_subgroup}
    rounds = sorted({at for points in curves.values() for at, _ in points})
    unit: Unit = "ratio" if key == "loss" else "percent"
    ends = "; ".join(
        f"{name} from {number(points[0][1], unit)} to {number(points[-1][1], unit)}"
        for name, points in curves.items()
        if points
    )

    def draw(axes: Axes) -> None:
        for index, points in enumerate(by_subgroup.values()):
            _line(axes, points, color=series_colour(index), linestyle=series_dash(index))
        _line(axes, overall, color=INK, linewidth=2.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("round")
        if key == "loss":
            axes.set_ylim(bottom=0)
        else:
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")

    table = Table(
        f"{title} by round, {stage}",
        ("round", *curves),
        tuple(
            Row(str(at), tuple(Cell(number(dict(points).get(at), unit)) for points in curves.values()))
            for at in rounds
        ),
    )
    name = f"curve-{'-'.join(stage.split())}-{key.replace('_', '-')}"
    return Panel(f"{title}, {stage}", drawn(name, f"{title} by round: {ends}", draw), numbers=table)


def _line(axes: Axes, points: Points, **style: Any) -> None:
    """A curve; a single round is a dot, since a line through one point cannot be seen."""
    if points:
        axes.plot(*zip(*points, strict=True), marker="o" if len(points) == 1 else "", **style)


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


KEPT = "kept"
"""The scalar in which an objective tells of it."""


def pseudo_label_curves(rounds: Sequence[Round]) -> tuple[Panel, ...]:
    """One panel for every stage whose objective kept pseudo labels."""
    panels = []
    for stage in dict.fromkeys(entry.stage for entry in rounds):
        kept = {
            entry.round: values
            for entry in rounds
            if entry.stage == stage
            and (
                values := [
                    scalars[KEPT] for scalars in entry.scalars.values() if scalars.get(KEPT) is not None
                ]
            )
        }
        if kept:
            panels.append(_pseudo_labels_panel(stage, kept))
    return tuple(panels)


def _pseudo_labels_panel(stage: str, kept: dict[int, list[float]]) -> Panel:
    rounds = sorted(kept)
    means = [sum(kept[at]) / len(kept[at]) for at in rounds]
    least, most = [min(kept[at]) for at in rounds], [max(kept[at]) for at in rounds]

    def draw(axes: Axes) -> None:
        if len(rounds) > 1:
            axes.fill_between(rounds, least, most, color=MUTED, alpha=0.25, linewidth=0)
        else:
            axes.vlines(rounds, least, most, color=MUTED, linewidth=1.2)
        axes.plot(rounds, means, color=INK, linewidth=2.4, marker="o" if len(rounds) == 1 else "")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(xlabel="round", ylim=(0, 1))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")

    title = f"Pseudo labels kept, {stage}"
    table = Table(
        title,
        ("round", "mean over clients", "lowest", "highest", "clients"),
        tuple(
            Row(
                str(at),
                texts(*(number(value, "percent") for value in (mean, low, high)), whole(len(kept[at]))),
            )
            for at, mean, low, high in zip(rounds, means, least, most, strict=True)
        ),
    )
    caption = (
        "Share of pseudo labels that reached the threshold: mean over clients, and the range of clients."
    )
    ends = f"from {number(means[0], 'percent')} to {number(means[-1], 'percent')}"
    svg = drawn(f"kept-{'-'.join(stage.split())}", f"{title}, by round: mean over clients {ends}", draw)
    return Panel(title, svg, caption, table)


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
