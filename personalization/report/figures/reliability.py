"""Reliability diagrams: accuracy against confidence, per subgroup."""

from matplotlib.axes import Axes

from personalization.report.measures import estimate
from personalization.report.numerals import number, pictures, whole, with_interval
from personalization.report.svg import INK, MUTED, Panel, drawn
from personalization.report.table import Row, Table, texts
from registry.bundle.counts.counting import Block
from registry.bundle.metrics.calibration import reliability as reliability_of


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
            axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
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
