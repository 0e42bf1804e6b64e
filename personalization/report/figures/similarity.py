"""Heat maps of the similarity matrix between clients' models, by which peers were chosen."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from personalization.report.data import ReportData, StageFacts, communities_of, in_order
from personalization.report.figures.heat_map import WIDTH, draw_heat_map, height, outline_caption
from personalization.report.numerals import number
from personalization.report.svg import Panel, drawn
from personalization.report.table import Row, Table, texts


def similarity_maps(data: ReportData) -> tuple[Panel, ...]:
    """One heat map for every stage that reported a similarity matrix of two clients or more."""
    return tuple(
        _panel(of)
        for of in data.facts
        if of.facts.get("similarity") and len(of.facts["similarity"]["clients"]) > 1
    )


def _panel(of: StageFacts) -> Panel:
    similarity: Mapping[str, Any] = of.facts["similarity"]
    communities = communities_of(of.facts)
    clients = in_order(similarity["clients"], communities)
    at = [similarity["clients"].index(client) for client in clients]
    values = [[None if x == y else similarity["matrix"][y][x] for x in at] for y in at]
    known = [value for row in values for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)

    def draw(axes: Axes) -> None:
        draw_heat_map(
            axes, clients, values, communities, least=low or 0.0, decimals=2, columns="cosine similarity"
        )

    title = f"Similarity of the clients’ models, {of.stage}"
    rows = tuple(
        Row(client, texts(*(number(value) for value in row)))
        for client, row in zip(clients, values, strict=True)
    )
    span = f"After the last round, from {number(low)} (no shade) to {number(high)}."
    caption = f"{span} {outline_caption(clients, communities)}".rstrip()
    name = f"similarity-{'-'.join(of.stage.split())}"
    svg = drawn(name, f"Heat map. {title}. {caption}", draw, width=WIDTH, height=height(clients))
    return Panel(title, svg, caption, Table(title, ("client", *clients), rows))
