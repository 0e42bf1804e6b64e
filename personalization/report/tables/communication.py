"""Communication: bytes to and from each client, and the additional cost of the exchange.

Additional cost = bytes downloaded in addition to the weights / bytes of weights downloaded (AC in Table 2 of
Bdair et al. 2022, measured): 1 with one additional model in every round, T with T models. It is given over
all rounds, and over the rounds in which any client received more than the weights, which are those after
warm-up. The client `server` is the coordinator's own and is excluded from all sums.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

from personalization.report.data import ClientBytes, ReportData, Round, communities_of, in_order
from personalization.report.numerals import number, size
from personalization.report.table import Row, Table, texts
from training.data.dataset import SERVER


def communication_tables(data: ReportData) -> tuple[Table, ...]:
    """One table for every stage whose rounds noted bytes by client."""
    tables = []
    for stage in dict.fromkeys(entry.stage for entry in data.rounds):
        rounds = [entry for entry in data.rounds if entry.stage == stage and entry.bytes_by_client]
        if rounds:
            facts = next((of.facts for of in data.facts if of.stage == stage), {})
            clients = dict.fromkeys(client for entry in rounds for client in entry.bytes_by_client)
            tables.append(_table(stage, rounds, in_order(clients, communities_of(facts))))
    return tuple(tables)


def sent(rounds: Sequence[Round], clients: Sequence[str]) -> ClientBytes:
    """The total bytes of these clients in these rounds."""
    found = [
        entry.bytes_by_client[name] for entry in rounds for name in clients if name in entry.bytes_by_client
    ]
    return reduce(add, found, ClientBytes())


def additional_cost(counted: ClientBytes) -> float | None:
    """AC: bytes sent in addition to the weights over bytes of weights; None where no weights were sent."""
    return counted.beside / counted.weights if counted.weights else None


def with_exchange(rounds: Sequence[Round]) -> list[Round]:
    """The rounds in which more than the weights was sent."""
    return [entry for entry in rounds if any(sizes.beside for sizes in entry.bytes_by_client.values())]


def _table(stage: str, rounds: Sequence[Round], clients: Sequence[str]) -> Table:
    later = with_exchange(rounds)
    hospitals = [client for client in clients if client != SERVER]

    def row(header: str, of: Sequence[str], *, is_total: bool = False) -> Row:
        all_rounds = sent(rounds, of)
        cells = [
            size(value) for value in (all_rounds.down, all_rounds.weights, all_rounds.beside, all_rounds.up)
        ]
        if later:
            cells += [number(additional_cost(over), "percent") for over in (all_rounds, sent(later, of))]
        return Row(header, texts(*cells), is_total)

    rows = [row(client, [client]) for client in hospitals]
    rows.append(row("all clients", hospitals, is_total=True))
    if SERVER in clients:
        rows.append(row(f"{SERVER}, in no sum", [SERVER]))
    columns = ["client", "sent to it", "of these weights", "of these beside", "sent by it"]
    if later:
        columns += ["additional cost", f"in the {len(later)} rounds with an exchange"]
    return Table(f"Communication of stage “{stage}”", tuple(columns), tuple(rows))
