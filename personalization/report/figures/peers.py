"""How often each client was given each other as a peer (Bdair et al. 2022, Figure 3)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from personalization.report.data import Communities, ReportData, Round, communities_of, in_order, present
from personalization.report.figures.heat_map import (
    WIDTH,
    Matrix,
    draw_heat_map,
    height,
    outline_caption,
)
from personalization.report.numerals import listed, number
from personalization.report.svg import Panel, drawn
from personalization.report.table import Row, Table, texts


def peer_maps(data: ReportData) -> tuple[Panel, ...]:
    """One heat map for every stage in which clients were given peers."""
    panels = []
    for stage in dict.fromkeys(entry.stage for entry in data.rounds):
        rounds = [entry for entry in data.rounds if entry.stage == stage and entry.peers]
        if rounds:
            facts = next((of.facts for of in data.facts if of.stage == stage), {})
            panels.append(_panel(stage, rounds, communities_of(facts)))
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
