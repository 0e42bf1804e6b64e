"""Heat maps of numbers between clients, with communities outlined."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from personalization.report.data import Communities, present
from personalization.report.numerals import listed
from personalization.report.palette import INK, LINE, SERIES

Matrix = Sequence[Sequence[float | None]]
"""One row per client, one column per client; None where there is no number."""

_DARKEST = 0.55  # opacity at which the page's ink stays legible on the shade, in light and in dark
_MOST_WRITTEN = 14  # clients up to which numbers fit into the cells

WIDTH = 4.8


def height(clients: Sequence[str]) -> float:
    """Inches of a panel `WIDTH` wide, so that cells are nearly square and names fit."""
    return 1.0 + 0.4 * max(3, min(len(clients), 10))


def draw_heat_map(
    axes: Axes,
    clients: Sequence[str],
    values: Matrix,
    communities: Communities,
    *,
    least: float,
    decimals: int,
    columns: str,
) -> None:
    """Draw the cells from `least` (no shade) to the largest value, their numbers, and the outlines.

    Args:
        axes: where.
        clients: in an order that keeps communities together.
        values: the numbers.
        communities: those with two clients or more are outlined.
        least: the value without shade.
        decimals: of the written numbers.
        columns: what the columns are.
    """
    most = max((value for row in values for value in row if value is not None), default=least)
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            share = 0.0 if value is None or most <= least else (value - least) / (most - least)
            if share > 0:
                axes.add_patch(Rectangle((x, y), 1, 1, color=SERIES[0], alpha=_DARKEST * share, linewidth=0))
            if value is not None and len(clients) <= _MOST_WRITTEN:
                axes.text(x + 0.5, y + 0.5, f"{value:.{decimals}f}", ha="center", va="center", fontsize=7.5)
    for at in range(len(clients) + 1):
        axes.plot([at, at], [0, len(clients)], color=LINE, linewidth=0.5, zorder=2)
        axes.plot([0, len(clients)], [at, at], color=LINE, linewidth=0.5, zorder=2)
    for members in outlined(clients, communities).values():
        start = clients.index(members[0])
        side = len(members)
        axes.add_patch(
            Rectangle(
                (start, start), side, side, fill=False, edgecolor=INK, linewidth=2, zorder=3, clip_on=False
            )
        )
    places = [at + 0.5 for at in range(len(clients))]
    axes.set(xlim=(0, len(clients)), ylim=(len(clients), 0), xlabel=columns)
    axes.set_xticks(places, clients, rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(places, clients, parse_math=False)
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def outlined(clients: Sequence[str], communities: Communities) -> dict[str, list[str]]:
    """The communities that have an outline: those with two clients or more among these."""
    return {name: members for name, members in present(clients, communities).items() if len(members) > 1}


def outline_caption(clients: Sequence[str], communities: Communities) -> str:
    """Which communities the outlines are, from the upper left to the lower right; empty without any."""
    names = list(outlined(clients, communities))
    return f"Outlined from the upper left: {listed(names)}." if names else ""
