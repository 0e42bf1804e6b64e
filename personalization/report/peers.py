"""Heat maps of numbers between clients, with communities outlined.

They show how often each client was given each other as a peer (Bdair et al. 2022, Figure 3), and the
similarities between clients' models by which peers were chosen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from personalization.report.data import (
    Communities,
    ReportData,
    Round,
    StageFacts,
    by_stage,
    communities_of,
    in_order,
    present,
)
from personalization.report.measures import Row, Table, listed, number, texts
from personalization.report.svg import INK, LINE, SERIES, Panel, drawn

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


def peer_maps(data: ReportData) -> tuple[Panel, ...]:
    """One heat map for every stage in which clients were given peers."""
    panels = []
    for stage, rounds in by_stage(entry for entry in data.rounds if entry.peers).items():
        panels.append(_panel(stage, rounds, data.communities(stage)))
    return tuple(panels)


def peer_shares(rounds: Sequence[Round], clients: Sequence[str]) -> list[list[float | None]]:
    """The fraction of the row client's peers in all rounds that the column client was, `(clients, clients)`.

    A row sums to 1; the row of a client that was never given a peer is None, as is a client and itself.
    """
    given: Counter[tuple[str, str]] = Counter(
        (client, peer) for entry in rounds for client, peers in entry.peers.items() for peer in peers
    )
    shares: list[list[float | None]] = []
    for client in clients:
        total = sum(given[client, peer] for peer in clients)
        shares.append([given[client, peer] / total if total and peer != client else None for peer in clients])
    return shares


def own_community_shares(
    shares: Matrix, clients: Sequence[str], communities: Communities
) -> Mapping[str, float | None]:
    """The fraction of each client's peers from its own community; None where it is alone or had none."""
    found: dict[str, float | None] = dict.fromkeys(clients)
    for members in present(clients, communities).values():
        for client in members:
            row = dict(zip(clients, shares[clients.index(client)], strict=True))
            known = [share for peer in members if (share := row[peer]) is not None]
            found[client] = sum(known) if known else None
    return found


def _panel(stage: str, rounds: Sequence[Round], communities: Communities) -> Panel:
    named = [name for entry in rounds for client, peers in entry.peers.items() for name in (client, *peers)]
    clients = in_order(named, communities)
    shares = peer_shares(rounds, clients)
    own = own_community_shares(shares, clients, communities)
    percents = [[None if share is None else 100 * share for share in row] for row in shares]

    def draw(axes: Axes) -> None:
        draw_heat_map(
            axes, clients, percents, communities, least=0, decimals=1, columns="was the peer, % of the row"
        )

    title = f"Who learned from whom, {stage}"
    rows = tuple(
        Row(client, texts(*(number(share, "percent") for share in row), number(own[client], "percent")))
        for client, row in zip(clients, shares, strict=True)
    )
    table = Table(title, ("client", *clients, "own community"), rows)
    caption = " ".join(
        part
        for part in (
            "Each row: of all peers that this client was given, the percentage that the column was.",
            outline_caption(clients, communities),
            _from_own(own, clients, communities),
        )
        if part
    )
    alternative = f"Heat map of peers. {_most_often(clients, shares)}. {caption}"
    name = f"peers-{'-'.join(stage.split())}"
    return Panel(title, drawn(name, alternative, draw, width=WIDTH, height=height(clients)), caption, table)


def _from_own(own: Mapping[str, float | None], clients: Sequence[str], communities: Communities) -> str:
    means = []
    for name, members in present(clients, communities).items():
        known = [share for client in members if (share := own[client]) is not None]
        if known:
            means.append(f"{name} {number(sum(known) / len(known), 'percent')}")
    return f"Peers of the own community, mean over its clients: {listed(means)}." if means else ""


def _most_often(clients: Sequence[str], shares: Matrix) -> str:
    sentences = []
    for client, row in zip(clients, shares, strict=True):
        known = [(share, peer) for share, peer in zip(row, clients, strict=True) if share is not None]
        if known:
            share, peer = max(known, key=lambda pair: pair[0])
            sentences.append(f"{client} was given {peer} most often, {number(share, 'percent')}")
    return "; ".join(sentences)


def similarity_maps(data: ReportData) -> tuple[Panel, ...]:
    """One heat map for every stage that reported a similarity matrix of two clients or more."""
    return tuple(
        _similarity_panel(of)
        for of in data.facts
        if of.facts.get("similarity") and len(of.facts["similarity"]["clients"]) > 1
    )


def _similarity_panel(of: StageFacts) -> Panel:
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
