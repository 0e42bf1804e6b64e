"""Figures of accuracy by subgroup and stage, of calibration, of what happened by round, and between clients.

Bars have 95 % intervals; reliability diagrams show accuracy against confidence; curves show loss, balanced
accuracy and the share of pseudo labels kept. Heat maps, with communities outlined, show how often each client
was given each other as a peer (Bdair et al. 2022, Figure 3), and the similarities between clients' models by
which peers were chosen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from personalization.report.data import Communities, ReportData, Round, by_stage, in_order, members_among
from personalization.report.measures import (
    ALL,
    ERRORS,
    FIRST,
    MEASURES,
    Unit,
    listed,
    measures_of,
    number,
    pictures,
    unit_of,
    whole,
    with_interval,
)
from personalization.report.svg import (
    INK,
    LINE,
    MUTED,
    SERIES,
    KeyEntry,
    Panel,
    drawn,
    in_percent,
    in_whole_numbers,
    key_entry,
    series_colour,
    series_dash,
)
from registry.bundle.counting import Block
from registry.bundle.metrics.calibration import reliability as reliability_of
from registry.bundle.metrics.patient import Told, told
from registry.views.tables import Row, Table

_EARLIER = 0.35  # opacity of a stage that was not the last


def legend(run: ReportData) -> list[KeyEntry]:
    """How the subgroups are drawn."""
    return [key_entry(name, index) for index, name in enumerate(run.order)]


def first_bars(run: ReportData) -> list[Panel]:
    """The first measures, each for every subgroup after every stage; without those defined nowhere."""
    return [panel for key in measures_of(run.labels)[:FIRST] for panel in _bars(run, key)]


def more_bars(run: ReportData) -> list[Panel]:
    """The measures that are folded away."""
    return [panel for key in measures_of(run.labels)[FIRST:] for panel in _bars(run, key)]


def _bars(run: ReportData, key: str) -> list[Panel]:
    groups, measure = [*run.order, ALL], MEASURES[key]
    by_stage = [{name: told(rows.get(name, {}), key) for name in groups} for rows in run.tested.values()]
    if all(found.value is None for of in by_stage for found in of.values()):
        return []
    of_groups = [f"{name} {with_interval(found, unit_of(key))}" for name, found in by_stage[-1].items()]
    svg = drawn(
        f"bars-{key}",
        f"{measure.title} after {run.last}: {listed(of_groups)}",
        lambda axes: _draw_bars(axes, key, by_stage),
        height=0.55 + 0.14 * len(groups) * len(by_stage) + 0.07 * len(groups),
    )
    better = "Lower is better" if key in ERRORS else "Higher is better"
    return [Panel(measure.title, svg, f"{better}: {measure.meaning}.")]


def _draw_bars(axes: Axes, key: str, by_stage: Sequence[Mapping[str, Told]]) -> None:
    thickness, reach = 0.8 / len(by_stage), 0.0
    for place, group in enumerate(by_stage[-1]):
        colour = MUTED if group == ALL else series_colour(place)
        for step, of_groups in enumerate(by_stage):
            found = of_groups[group]
            if found.value is None:
                continue
            at = place + (step + 0.5) * thickness - 0.4
            alpha = None if step == len(by_stage) - 1 else _EARLIER
            axes.barh(at, found.value, thickness * 0.86, color=colour, alpha=alpha)
            reach = max(reach, found.value, *(found.interval or (0,)))
            if found.interval is not None:
                axes.plot(found.interval, [at, at], color=INK, linewidth=1, marker="|", markersize=4)
    axes.set_yticks(range(len(by_stage[-1])), list(by_stage[-1]))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(1.08 * reach, 0.05) if key in ERRORS else 1)
    if unit_of(key) == "percent":
        in_percent(axes.xaxis)


def reliability_diagrams(run: ReportData) -> list[Panel]:
    """One of all pictures, and one of every subgroup."""
    named = {name: (str(at), series_colour(at)) for at, name in enumerate(run.order) if name in run.blocks}
    return [
        _reliability(ALL, "all", run.total, MUTED, told(run.figures[ALL], "ece")),
        *(
            _reliability(name, identity, run.blocks[name], colour, told(run.figures[name], "ece"))
            for name, (identity, colour) in named.items()
        ),
    ]


def _reliability(name: str, identity: str, block: Block, colour: str, error: Told) -> Panel:
    """Confidence and share right, in bins of equally many pictures: at least ten, where there are 150."""
    n = int(block.point.n)
    diagram = reliability_of(block.point, bins=max(1, min(15, n // 10)))
    filled = diagram.n > 0
    confidence, accuracy, size = diagram.confidence[filled], diagram.accuracy[filled], diagram.n[filled]

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.vlines(confidence, accuracy, confidence, color=colour, linewidth=1.2, alpha=0.5)
        axes.plot(confidence, accuracy, color=colour, marker="o", markersize=4.5, markeredgecolor=INK)
        axes.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal", xlabel="confidence", ylabel="share right")
        for axis in (axes.xaxis, axes.yaxis):
            in_percent(axis)
            axis.set_ticks([0, 0.25, 0.5, 0.75, 1])

    rows = (
        Row.of(number(float(c), "percent"), number(float(a), "percent"), whole(int(s)))
        for c, a, s in zip(confidence, accuracy, size, strict=True)
    )
    table = Table.of(f"Reliability, {name}", ("confidence", "share right", "pictures"), rows)
    caption = f"Calibration error {with_interval(error)}; {pictures(n)}."
    alternative = f"Reliability diagram of {name}: share of right answers against confidence. {caption}"
    return Panel(name, drawn(f"reliability-{identity}", alternative, draw, 2.7, 2.6), caption, table)


Points = Mapping[int, float]
"""A figure by round."""


def curves(run: ReportData) -> list[Panel]:
    """Loss and balanced accuracy by round of every stage that measured them, then pseudo labels kept."""
    stages = by_stage(run.rounds)
    measures = {"loss": "Loss", "balanced_accuracy": "Balanced accuracy"}
    return [
        *(
            panel
            for stage, rounds in stages.items()
            for key, title in measures.items()
            for panel in _curves(stage, rounds, run.order, key, title)
        ),
        *(panel for stage, rounds in stages.items() for panel in _pseudo_labels(stage, rounds)),
    ]


def _curves(stage: str, rounds: Sequence[Round], order: Sequence[str], key: str, title: str) -> list[Panel]:
    found = {"all pictures": {entry.round: entry.metrics.get(key) for entry in rounds}} | {
        name: {entry.round: entry.by_subgroup.get(name, {}).get(key) for entry in rounds} for name in order
    }
    of_names: dict[str, Points] = {
        name: {at: value for at, value in points.items() if value is not None}
        for name, points in found.items()
    }
    if not any(of_names.values()):
        return []
    unit: Unit = "ratio" if key == "loss" else "percent"
    ends = "; ".join(
        f"{name} from {number(first, unit)} to {number(last, unit)}"
        for name, points in of_names.items()
        if points
        for first, *_, last in ([*points.values(), *points.values()],)
    )

    def draw(axes: Axes) -> None:
        for index, name in enumerate(order):
            _line(axes, of_names[name], color=series_colour(index), linestyle=series_dash(index))
        _line(axes, of_names["all pictures"], color=INK, linewidth=2.4)
        in_whole_numbers(axes.xaxis)
        axes.set_xlabel("round")
        if key == "loss":
            axes.set_ylim(bottom=0)
        else:
            axes.set_ylim(0, 1)
            in_percent(axes.yaxis)

    rows = (
        Row.of(str(at), *(number(points.get(at), unit) for points in of_names.values()))
        for at in sorted({at for points in of_names.values() for at in points})
    )
    table = Table.of(f"{title} by round, {stage}", ("round", *of_names), rows)
    name = f"curve-{'-'.join(stage.split())}-{key.replace('_', '-')}"
    return [Panel(f"{title}, {stage}", drawn(name, f"{title} by round: {ends}", draw), numbers=table)]


def _line(axes: Axes, points: Points, **style: Any) -> None:
    """A curve; a single round is a dot, since a line through one point cannot be seen."""
    if points:
        axes.plot(list(points), list(points.values()), marker="o" if len(points) == 1 else "", **style)


KEPT = "kept"
"""The scalar in which an objective tells of it."""


def _pseudo_labels(stage: str, rounds: Sequence[Round]) -> list[Panel]:
    shares = {
        entry.round: [share for of in entry.scalars.values() if (share := of.get(KEPT)) is not None]
        for entry in rounds
    }
    kept = {at: shares[at] for at in sorted(shares) if shares[at]}
    if not kept:
        return []
    means = {at: sum(of_clients) / len(of_clients) for at, of_clients in kept.items()}
    least, most = (list(map(end, kept.values())) for end in (min, max))

    def draw(axes: Axes) -> None:
        if len(kept) > 1:
            axes.fill_between(list(kept), least, most, color=MUTED, alpha=0.25, linewidth=0)
        else:
            axes.vlines(list(kept), least, most, color=MUTED, linewidth=1.2)
        _line(axes, means, color=INK, linewidth=2.4)
        in_whole_numbers(axes.xaxis)
        axes.set(xlabel="round", ylim=(0, 1))
        in_percent(axes.yaxis)

    title = f"Pseudo labels kept, {stage}"
    rows = (
        Row.of(
            str(at),
            *(number(value, "percent") for value in (means[at], min(of_clients), max(of_clients))),
            whole(len(of_clients)),
        )
        for at, of_clients in kept.items()
    )
    table = Table.of(title, ("round", "mean over clients", "lowest", "highest", "clients"), rows)
    caption = (
        "Share of pseudo labels that reached the threshold: mean over clients, and the range of clients."
    )
    first, *_, last = [*means.values(), *means.values()]
    ends = f"from {number(first, 'percent')} to {number(last, 'percent')}"
    svg = drawn(f"kept-{'-'.join(stage.split())}", f"{title}, by round: mean over clients {ends}", draw)
    return [Panel(title, svg, caption, table)]


Matrix = Sequence[Sequence[float | None]]
"""One row per client, one column per client; None where there is no number."""

_DARKEST = 0.55  # opacity at which the page's ink stays legible on the shade, in light and in dark
_MOST_WRITTEN = 14  # clients up to which numbers fit into the cells


def maps(run: ReportData) -> list[Panel]:
    """A heat map for every stage in which clients had peers, and for every matrix of two clients or more."""
    with_peers = by_stage(entry for entry in run.rounds if entry.peers)
    similar = [of for of in run.told("similarity") if len(of.facts["similarity"]["clients"]) > 1]
    return [
        *(_peers(stage, rounds, run.communities(stage)) for stage, rounds in with_peers.items()),
        *(_similarity(of.stage, of.facts["similarity"], of.communities) for of in similar),
    ]


def _peers(stage: str, rounds: Sequence[Round], communities: Communities) -> Panel:
    named = (name for entry in rounds for client, peers in entry.peers.items() for name in (client, *peers))
    clients = in_order(named, communities)
    shares = peer_shares(rounds, clients)
    given = {
        client: {peer: share for peer, share in zip(clients, row, strict=True) if share is not None}
        for client, row in zip(clients, shares, strict=True)
    }
    own: dict[str, float | None] = dict.fromkeys(clients)
    means, most = [], []
    for name, members in members_among(clients, communities).items():
        known = {
            client: sum(of)
            for client in members
            if (of := [share for peer, share in given[client].items() if peer in members])
        }
        own |= known
        if known:
            means.append(f"{name} {number(sum(known.values()) / len(known), 'percent')}")
    for client, of_client in given.items():
        if of_client:
            peer = max(of_client, key=of_client.__getitem__)
            most.append(f"{client} was given {peer} most often, {number(of_client[peer], 'percent')}")
    captions = (
        "Each row: of all peers that this client was given, the percentage that the column was.",
        outline_caption(clients, communities),
        f"Peers of the own community, mean over its clients: {listed(means)}." if means else "",
    )
    title, caption = f"Who learned from whom, {stage}", " ".join(filter(None, captions))
    percents = [[None if share is None else 100 * share for share in row] for row in shares]
    svg = drawn(
        f"peers-{'-'.join(stage.split())}",
        f"Heat map of peers. {'; '.join(most)}. {caption}",
        partial(
            draw_heat_map, clients, percents, communities, decimals=1, columns="was the peer, % of the row"
        ),
        *_size(clients),
    )
    rows = (
        Row.of(client, *(number(share, "percent") for share in (*row, own[client])))
        for client, row in zip(clients, shares, strict=True)
    )
    return Panel(title, svg, caption, Table.of(title, ("client", *clients, "own community"), rows))


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


def _similarity(stage: str, similarity: Mapping[str, Any], communities: Communities) -> Panel:
    clients = in_order(similarity["clients"], communities)
    at = [similarity["clients"].index(client) for client in clients]
    values = [[None if x == y else similarity["matrix"][y][x] for x in at] for y in at]
    known = [value for row in values for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    title = f"Similarity of the clients’ models, {stage}"
    span = f"After the last round, from {number(low)} (no shade) to {number(high)}."
    caption = f"{span} {outline_caption(clients, communities)}".rstrip()
    svg = drawn(
        f"similarity-{'-'.join(stage.split())}",
        f"Heat map. {title}. {caption}",
        partial(
            draw_heat_map,
            *(clients, values, communities),
            least=low or 0.0,
            decimals=2,
            columns="cosine similarity",
        ),
        *_size(clients),
    )
    rows = (Row.of(client, *map(number, row)) for client, row in zip(clients, values, strict=True))
    return Panel(title, svg, caption, Table.of(title, ("client", *clients), rows))


def _size(clients: Sequence[str]) -> tuple[float, float]:
    """Inches of a heat map, so that cells are nearly square and names fit."""
    return 4.8, 1.0 + 0.4 * max(3, min(len(clients), 10))


def draw_heat_map(
    clients: Sequence[str],
    values: Matrix,
    communities: Communities,
    axes: Axes,
    *,
    least: float = 0,
    decimals: int,
    columns: str,
) -> None:
    """Draw the cells from `least` (no shade) to the largest value, their numbers, and the outlines.

    Args:
        clients: in an order that keeps communities together.
        values: the numbers.
        communities: those with two clients or more are outlined.
        axes: where.
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
    outline: dict[str, Any] = {"fill": False, "edgecolor": INK, "linewidth": 2, "zorder": 3, "clip_on": False}
    for members in outlined(clients, communities).values():
        start, side = clients.index(members[0]), len(members)
        axes.add_patch(Rectangle((start, start), side, side, **outline))
    places = [at + 0.5 for at in range(len(clients))]
    axes.set(xlim=(0, len(clients)), ylim=(len(clients), 0), xlabel=columns)
    axes.set_xticks(places, clients, rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(places, clients, parse_math=False)
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def outlined(clients: Sequence[str], communities: Communities) -> dict[str, list[str]]:
    """The communities that have an outline: those with two clients or more among these."""
    found = members_among(clients, communities)
    return {name: members for name, members in found.items() if len(members) > 1}


def outline_caption(clients: Sequence[str], communities: Communities) -> str:
    """Which communities the outlines are, from the upper left to the lower right; empty without any."""
    names = list(outlined(clients, communities))
    return f"Outlined from the upper left: {listed(names)}." if names else ""
