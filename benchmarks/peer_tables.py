"""Runs of semi-supervised methods as Markdown tables, in the forms of Bdair et al. 2022.

Figures over clients are of each client's own test pictures: averaged over seeds client by client, then `mean
(median) ± population deviation` over clients.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median, pstdev

from committees import newest_peers, origin_of_peers
from federated_runs import Found, mean
from recipe_runs import cell

OVER_CLIENTS = {"F1": "macro_f1", "precision": "macro_precision", "recall": "balanced_accuracy"}
TOGETHER = ("balanced_accuracy", "auroc", "auprc", "ece", "mce", "aurc")
UNSEEN = ("balanced_accuracy", "macro_f1", "auroc", "auprc", "ece")
NOTHING = "–"

Rows = Mapping[str, Mapping[int, Found]]  # by method and seed


def number(value: float | None, digits: int = 3) -> str:
    """A figure as text."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def markdown(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table under its title."""
    lines = [f"### {title}", ""]
    lines += [note, ""] if note else []
    lines += ["| | " + " | ".join(header) + " |", "|---" * (len(header) + 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def at_clients(runs: Iterable[Found], key: str) -> dict[str, float]:
    """A figure at each client that defines it, averaged over seeds."""
    told = [run.facts["by_client"] for run in runs]
    clients = list(dict.fromkeys(client for by_client in told for client in by_client))
    means = {
        client: mean(by_client[client][key] for by_client in told if client in by_client)
        for client in clients
    }
    return {client: value for client, value in means.items() if value is not None}


def spread(values: Sequence[float]) -> str:
    """`mean (median) ± population deviation`."""
    if not values:
        return NOTHING
    return f"{fmean(values):.3f} ({median(values):.3f}) ± {pstdev(values):.3f}"


def additional_cost(
    runs: Mapping[int, Found], free: Mapping[int, Found], cost: Callable[[Found, Found], float | None]
) -> str:
    """`cost` of each run against that of the same seed without peers, averaged, in percent."""
    value = mean(cost(run, free[seed]) for seed, run in runs.items() if seed in free)
    return NOTHING if value is None else f"{100 * value:.1f}"


def cost_of_all_rounds(run: Found, free: Found) -> float | None:
    """What was downloaded in all rounds, relative to `free`; None where clients learn alone."""
    return None if run.rounds_stage is None else sum(run.downloads) / sum(free.downloads) - 1


def cost_with_all_peers(run: Found, free: Found) -> float | None:
    """What a client with all its peers downloads in a round, relative to one of `free`."""
    downloads = run.downloads_with_all_peers
    return fmean(downloads) / fmean(free.downloads) - 1 if downloads else None


def table_over_clients(rows: Rows, lower: Mapping[int, Found], free: Mapping[int, Found]) -> str:
    """Table 2."""
    base = mean(at_clients(lower.values(), OVER_CLIENTS["F1"]).values())
    lines = []
    for method, runs in rows.items():
        figures = [list(at_clients(runs.values(), key).values()) for key in OVER_CLIENTS.values()]
        better = NOTHING if base is None or not figures[0] else f"{100 * (fmean(figures[0]) / base - 1):.1f}"
        lines.append(
            (
                method,
                str(len(runs)),
                *(spread(values) for values in figures),
                better,
                additional_cost(runs, free, cost_of_all_rounds),
                additional_cost(runs, free, cost_with_all_peers),
                number(mean(run.kept for run in runs.values()), 2),
                f"{fmean(run.seconds for run in runs.values()):.0f}",
            )
        )
    header = ("seeds", *OVER_CLIENTS, "RI %", "AC %", "AC with all peers %", "pseudo labels kept", "seconds")
    return markdown("Over clients", header, lines)


def table_together(rows: Rows) -> str:
    """Figures of the global model, with the envelope of the runs' own intervals."""
    lines = [
        (method, *(cell([run.test for run in runs.values()], key) for key in TOGETHER))
        for method, runs in rows.items()
    ]
    header = [key.replace("_", " ") for key in TOGETHER]
    note = (
        "All clients' test pictures together, 95 % intervals by lesion. Where clients learn alone, each of "
        "its own model."
    )
    return markdown("The global model", header, lines, note)


def table_at_clients(rows: Rows) -> str:
    """Table 4: F1 of each client, with the mean of each community of several after its clients."""
    communities = {
        name: clients
        for runs in rows.values()
        for run in runs.values()
        for name, clients in run.communities.items()
    }
    header = [
        column
        for name, clients in communities.items()
        for column in (*clients, *([f"**{name}**"] if len(clients) > 1 else []))
    ]
    lines = []
    for method, runs in rows.items():
        own = at_clients(runs.values(), OVER_CLIENTS["F1"])
        cells = [method]
        for clients in communities.values():
            cells += [number(own.get(client)) for client in clients]
            if len(clients) > 1:
                cells.append(number(mean(own.get(client) for client in clients)))
        average = f"{fmean(own.values()):.3f} ± {pstdev(own.values()):.3f}" if own else NOTHING
        lines.append([*cells, average])
    return markdown("F1 of each client and community", [*header, "average"], lines)


def table_by_class(rows: Rows, key: str) -> str:
    """Tables 5 to 7: means over the clients that hold a class."""
    told = {
        method: [run.facts["by_class"] for run in runs.values() if "by_class" in run.facts]
        for method, runs in rows.items()
    }
    codes = list(dict.fromkeys(code for found in told.values() for by_class in found for code in by_class))
    lines = [
        (
            method,
            *(number(mean(by_class[code][key] for by_class in found if code in by_class)) for code in codes),
        )
        for method, found in told.items()
        if found
    ]
    return markdown(f"{key} by class", codes, lines, "Means over the clients that hold the class.")


def table_of_communities(rows: Rows) -> str:
    """Figure 3, summed up: where peers came from, and how alike clients are in the end."""
    taught = {
        method: [run for run in runs.values() if run.peers is not None] for method, runs in rows.items()
    }
    communities = {
        name: clients
        for found in taught.values()
        for run in found
        for name, clients in run.communities.items()
        if len(clients) > 1
    }
    lines = []
    for method, found in taught.items():
        alike = [similarities(run) for run in found]
        ends = [number(mean(pair[place] for pair in alike if pair is not None)) for place in (0, 1)]
        for half in ("first", "second") if found else ():
            committees = [committee for run in found for committee in run.halves()[half]]
            origins = [origin_of_peers(committees, clients).text for clients in communities.values()]
            newest = newest_peers(committees).text
            ends_here = ends if half == "second" else (NOTHING, NOTHING)
            lines.append((method, half, *origins, newest, *ends_here))
    header = (
        "half of the rounds after warm-up",
        *(f"{name}: own peers %" for name in communities),
        "uploaded in the round before %",
        "similarity within communities",
        "between",
    )
    note = (
        "Of the peers that taught clients of a community, those of the same community; in brackets how many "
        "peers drawn by lot would be, among those that had taken part until then. Of all peers, those whose "
        "upload is of the round before, likewise."
    )
    return markdown("Communities", header, lines, note)


def similarities(run: Found) -> tuple[float | None, float | None] | None:
    """The final matrix's mean over pairs of clients within a community, and over pairs of different ones."""
    told = run.facts.get("similarity")
    if told is None:
        return None
    home = {client: name for name, clients in run.communities.items() for client in clients}
    pairs: dict[bool, list[float]] = {True: [], False: []}
    for place, client in enumerate(told["clients"]):
        for other_place, other in enumerate(told["clients"][:place]):
            if client in home and other in home:
                pairs[home[client] == home[other]].append(told["matrix"][place][other_place])
    return mean(pairs[True]), mean(pairs[False])


def table_unseen(rows: Rows) -> str:
    """Scenario 3: benign against malignant at clients that took no part."""
    lines = []
    for method, runs in rows.items():
        told = [run.facts["unseen"] for run in runs.values() if "unseen" in run.facts]
        for client in dict.fromkeys(client for unseen in told for client in unseen):
            found = [unseen[client] for unseen in told if client in unseen]
            lines.append((f"{method}, {client}", str(found[0]["n"]), *(cell(found, key) for key in UNSEEN)))
    header = ("pictures", *(key.replace("_", " ") for key in UNSEEN))
    return markdown("Unseen clients, benign against malignant", header, lines) if lines else ""
