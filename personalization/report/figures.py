"""Figures of accuracy by subgroup and stage, of calibration, and of what happened round by round.

Bars have 95 % intervals; reliability diagrams show accuracy against confidence; curves show loss, balanced
accuracy and the share of pseudo labels kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from personalization.report.data import Round, by_stage
from personalization.report.measures import (
    ALL,
    Cell,
    Estimate,
    Malignant,
    Measure,
    Row,
    Table,
    Unit,
    estimate,
    listed,
    number,
    pictures,
    texts,
    whole,
    with_all,
    with_interval,
)
from personalization.report.svg import (
    INK,
    MUTED,
    Panel,
    drawn,
    in_percent,
    in_whole_numbers,
    series_colour,
    series_dash,
)
from registry.bundle.counts.counting import Block
from registry.bundle.metrics.calibration import reliability as reliability_of

_EARLIER = 0.35  # opacity of a stage that was not the last


def bars(
    measure: Measure,
    stages: Mapping[str, Mapping[str, Block]],
    order: tuple[str, ...],
    malignant: Malignant,
) -> Panel | None:
    """One measure for every subgroup after every stage; None where it is defined nowhere.

    Args:
        measure: what to show.
        stages: per stage, the counts of every subgroup.
        order: the subgroups that have a colour, in its order.
        malignant: which classes are malignant, `(classes,)`.
    """
    by_stage = {stage: _estimates(measure, blocks, malignant) for stage, blocks in stages.items()}
    groups = [*order, ALL]
    values = [found for of in by_stage.values() for found in of.values() if found.value is not None]
    if not values:
        return None
    last = list(by_stage)[-1]
    unit: Unit = "percent" if measure.percent else "ratio"
    alternative = f"{measure.title} after {last}: " + listed(
        [f"{group} {with_interval(by_stage[last].get(group, Estimate(None)), unit)}" for group in groups]
    )

    def draw(axes: Axes) -> None:
        _draw(axes, measure, by_stage, groups)

    rows = len(groups) * len(by_stage)
    svg = drawn(f"bars-{measure.key}", alternative, draw, height=0.55 + 0.14 * rows + 0.07 * len(groups))
    better = "Higher is better" if measure.higher_is_better else "Lower is better"
    return Panel(measure.title, svg, f"{better}: {measure.meaning}.")


def _estimates(measure: Measure, blocks: Mapping[str, Block], malignant: Malignant) -> dict[str, Estimate]:
    return {name: estimate(measure.key, block, malignant) for name, block in with_all(blocks).items()}


def _draw(
    axes: Axes, measure: Measure, by_stage: Mapping[str, Mapping[str, Estimate]], groups: list[str]
) -> None:
    thickness = 0.8 / len(by_stage)
    reach = 0.0
    for place, group in enumerate(groups):
        colour = MUTED if group == ALL else series_colour(place)
        for step, estimates in enumerate(by_stage.values()):
            found = estimates.get(group, Estimate(None))
            if found.value is None:
                continue
            at = place + (step + 0.5) * thickness - 0.4
            is_last = step == len(by_stage) - 1
            axes.barh(at, found.value, thickness * 0.86, color=colour, alpha=None if is_last else _EARLIER)
            reach = max(reach, found.value, found.high or 0)
            if found.low is not None and found.high is not None:
                axes.plot([found.low, found.high], [at, at], color=INK, linewidth=1, marker="|", markersize=4)
    axes.set_yticks(range(len(groups)), groups)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    if measure.higher_is_better:
        axes.set_xlim(0, 1)
    else:
        axes.set_xlim(0, max(1.08 * reach, 0.05))
    if measure.percent:
        in_percent(axes.xaxis)


def reliability(name: str, identity: str, block: Block, colour: str) -> Panel:
    """The reliability diagram of one subgroup, in bins of equally many pictures.

    Args:
        name: the subgroup's name.
        identity: unique on the page; letters, digits and hyphens.
        block: its counts.
        colour: a placeholder of the palette.
    """
    n = int(block.point.n)
    diagram = reliability_of(block.point, bins=_bins(n))
    filled = diagram.n > 0
    confidence, accuracy, size = diagram.confidence[filled], diagram.accuracy[filled], diagram.n[filled]

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.vlines(confidence, accuracy, confidence, color=colour, linewidth=1.2, alpha=0.5)
        axes.plot(confidence, accuracy, color=colour, marker="o", markersize=4.5, markeredgecolor=INK)
        axes.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal", xlabel="confidence", ylabel="share right")
        for axis in (axes.xaxis, axes.yaxis):
            in_percent(axis)
            axis.set_ticks([0, 0.25, 0.5, 0.75, 1])

    error = with_interval(estimate("ece", block))
    table = Table(
        f"Reliability, {name}",
        ("confidence", "share right", "pictures"),
        tuple(
            Row(number(float(c), "percent"), texts(number(float(a), "percent"), whole(int(s))))
            for c, a, s in zip(confidence, accuracy, size, strict=True)
        ),
    )
    caption = f"Calibration error {error}; {pictures(n)}."
    alternative = f"Reliability diagram of {name}: share of right answers against confidence. {caption}"
    svg = drawn(f"reliability-{identity}", alternative, draw, width=2.7, height=2.6)
    return Panel(name, svg, caption, table)


def _bins(n: int) -> int:
    """The number of bins: fewer than the usual 15 where a bin would hold fewer than ten pictures."""
    return max(1, min(15, n // 10))


Points = list[tuple[int, float]]


def learning_curves(rounds: Sequence[Round], order: tuple[str, ...]) -> tuple[Panel, ...]:
    """One panel of loss and one of balanced accuracy for every stage that measured them."""
    panels = []
    for stage, of_stage in by_stage(rounds).items():
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
        in_whole_numbers(axes.xaxis)
        axes.set_xlabel("round")
        if key == "loss":
            axes.set_ylim(bottom=0)
        else:
            axes.set_ylim(0, 1)
            in_percent(axes.yaxis)

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


KEPT = "kept"
"""The scalar in which an objective tells of it."""


def pseudo_label_curves(rounds: Sequence[Round]) -> tuple[Panel, ...]:
    """One panel for every stage whose objective kept pseudo labels."""
    panels = []
    for stage, of_stage in by_stage(rounds).items():
        shares = {
            entry.round: [share for of in entry.scalars.values() if (share := of.get(KEPT)) is not None]
            for entry in of_stage
        }
        if kept := {at: of_clients for at, of_clients in shares.items() if of_clients}:
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
        in_whole_numbers(axes.xaxis)
        axes.set(xlabel="round", ylim=(0, 1))
        in_percent(axes.yaxis)

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
