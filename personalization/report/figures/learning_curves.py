"""Loss and balanced accuracy per round, over all pictures and by subgroup."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from personalization.report.data import Round
from personalization.report.numerals import Unit, number
from personalization.report.palette import INK, series_colour, series_dash
from personalization.report.svg import Panel, drawn
from personalization.report.table import Cell, Row, Table

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
