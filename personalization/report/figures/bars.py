"""Bar charts of one figure per subgroup and stage, with 95 % intervals."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from personalization.report.measures import ALL, Estimate, Malignant, Measure, estimate, present, total
from personalization.report.numerals import Unit, listed, with_interval
from personalization.report.svg import INK, MUTED, Panel, drawn, series_colour
from registry.bundle.counts.counting import Block

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
    with_all = {**present(blocks), ALL: total(blocks)}
    return {name: estimate(measure.key, block, malignant) for name, block in with_all.items()}


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
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
