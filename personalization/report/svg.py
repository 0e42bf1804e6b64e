"""Panels of the report: matplotlib figures as inline SVG, in the colours of the page.

Deterministic: no dates, fixed ids. Text stays text, so that it can be read aloud, searched and set in the
page's own font. Ids are prefixed with the figure's name, since a page holds many figures.

matplotlib wants a colour value, the page wants a variable that its style sheet fills in for light, dark and
print. A figure is drawn with the placeholder values here, and `inline` puts `var(--name)` in their place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from io import StringIO

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from registry.views.tables import Table

INK = "#00000a"
MUTED = "#00000b"
LINE = "#00000c"
SERIES = ("#000011", "#000012", "#000013", "#000014", "#000015", "#000016", "#000017", "#000018")

VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES, start=1)
}

# Lines are told apart without colour too.
DASHES = ("solid", (0, (5, 1.6)), (0, (1.4, 1.4)), (0, (6, 1.6, 1.4, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def series_colour(index: int) -> str:
    """The placeholder colour of the subgroup at this index."""
    return SERIES[index % len(SERIES)]


def series_marker(index: int) -> str:
    """The marker of the subgroup at this index."""
    return MARKERS[index % len(MARKERS)]


def series_dash(index: int) -> str | tuple[int, tuple[float, ...]]:
    """The line style of the subgroup at this index."""
    return DASHES[index % len(DASHES)]


@dataclass(frozen=True)
class KeyEntry:
    """One entry of a figure's legend: how a subgroup is drawn.

    Attributes:
        name: the subgroup.
        variable: the style sheet's variable of its colour.
        dashes: lengths for `stroke-dasharray`; empty for a solid line.
    """

    name: str
    variable: str
    dashes: str


def key_entry(name: str, index: int) -> KeyEntry:
    """The legend entry of the subgroup at this index."""
    dash = series_dash(index)
    lengths = () if isinstance(dash, str) else dash[1]
    return KeyEntry(name, VARIABLES[series_colour(index)], " ".join(f"{2 * length:g}" for length in lengths))


_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dermfed",
    "font.family": "DejaVu Sans",  # comes with matplotlib; for the measures of text, the page sets its own
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.5,
}


@dataclass(frozen=True)
class Panel:
    """One figure on the page.

    Attributes:
        title: what it shows.
        svg: the picture.
        caption: how to read it, one line; may be empty.
        numbers: the plotted values as a table; None where a table next to it has the same values.
    """

    title: str
    svg: Markup
    caption: str = ""
    numbers: Table | None = None


def drawn(
    name: str, alternative: str, draw: Callable[[Axes], None], width: float = 3.6, height: float = 2.5
) -> Markup:
    """Draw one panel as inline SVG.

    Args:
        name: unique on the page; letters, digits and hyphens.
        alternative: what the figure shows, for those who do not see it.
        draw: draws on the axes it is given.
        width: inches; sets the size of text relative to the panel, which fills its place on the page.
        height: inches.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return inline(text.getvalue(), name, alternative)


def in_percent(axis: Axis) -> None:
    """Write shares along an axis in percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")


def in_whole_numbers(axis: Axis) -> None:
    """Mark whole numbers alone along an axis."""
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def inline(document: str, name: str, alternative: str) -> Markup:
    """Turn an SVG document of matplotlib into an element of a page, coloured by the page's variables."""
    body = document[document.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    view_box = re.search(r'viewBox="[^"]*"', body)
    assert view_box is not None, "matplotlib writes a viewBox"
    opening = (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {view_box.group()} role="img" '
        f'aria-label="{escape(alternative)}">'
    )
    # The SVG is matplotlib's own, with its texts escaped, and the alternative is escaped above.
    return Markup(opening + body[body.index(">") + 1 :].rstrip())
