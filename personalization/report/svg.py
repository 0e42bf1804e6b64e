"""Panels of the report: matplotlib figures as inline SVG.

Deterministic: no dates, fixed ids. Text stays text, so that it can be read aloud, searched and set in the
page's own font. Ids are prefixed with the figure's name, since a page holds many figures.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from io import StringIO

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from personalization.report.palette import INK, LINE, MUTED, VARIABLES
from personalization.report.table import Table

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
    name: str, alternative: str, draw: Callable[[Axes], None], *, width: float = 3.6, height: float = 2.5
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
