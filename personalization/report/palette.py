"""The colours of figures, as placeholders that the page's style sheet fills in for light, dark and print.

matplotlib wants a colour value, the page wants a variable. A figure is drawn with the placeholder values
here, and `svg.inline` puts `var(--name)` in their place.
"""

from dataclasses import dataclass

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
