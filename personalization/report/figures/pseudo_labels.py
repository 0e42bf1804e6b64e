"""The fraction of unlabelled pictures whose pseudo label passed the confidence threshold, by round."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from personalization.report.data import Round
from personalization.report.numerals import number, whole
from personalization.report.palette import INK, MUTED
from personalization.report.svg import Panel, drawn
from personalization.report.table import Row, Table, texts

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
            panels.append(_panel(stage, kept))
    return tuple(panels)


def _panel(stage: str, kept: dict[int, list[float]]) -> Panel:
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
