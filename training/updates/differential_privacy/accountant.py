"""The privacy accountant of a client: its releases so far, counted before each leaves, and their (ε, δ).

An account lies in the client's own store and goes only forward: a round that is done again after a kill, with
noise drawn anew, counts again. It is of one run: what other jobs took from the same pictures is not in it.

The account is by Rényi differential privacy (Mironov 2017; subsampled: Mironov et al. 2019; conversion:
Balle et al. 2020, Theorem 21), computed by Opacus.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from training.algorithms.client import Client, State
from training.algorithms.objectives.dp_sgd import DELTA, NOISE, RATE, STEPS
from training.errors import JobError
from training.messages.message import Update

RELEASES: Final = "private_releases"
EPSILON: Final = "private_epsilon"
UPDATES, PICTURES = "privacy/updates", "privacy/pictures"  # in the client's store
COUNT = "entries"  # how often an account was written, which orders its files
LAST = 2**31 - 1  # after every round
WHOLE = (*range(2, 64), *range(64, 257, 32))
SAMPLED_ORDERS = (1.125, 1.25, 1.5, 1.75, 2.5, 3.5, *WHOLE)  # broken and large ones take long to compute
ORDERS = (*(1 + part / 20 for part in range(1, 200)), *WHOLE, *(2**power for power in range(9, 21)))


def epsilon(steps: Sequence[tuple[float, float, int]], delta: float) -> float:
    """ε at δ of Gaussian mechanisms one after another.

    Args:
        steps: noise multiplier, sampling rate and how often, of each kind of step.
        delta: δ.
    """
    return _epsilon(tuple(sorted(steps)), delta)


@lru_cache(maxsize=256)
def _epsilon(steps: tuple[tuple[float, float, int], ...], delta: float) -> float:
    try:
        from opacus.accountants.analysis import rdp
    except ImportError as error:
        raise JobError(
            "an account of differential privacy needs Opacus; install it with `pip install dermfed[privacy]`"
        ) from error
    orders = list(ORDERS if all(rate == 1 for _, rate, _ in steps) else SAMPLED_ORDERS)
    spent = sum(rdp.compute_rdp(q=q, noise_multiplier=z, steps=n, orders=orders) for z, q, n in steps)
    with warnings.catch_warnings():
        # Where the least or the largest order is the best of them, ε is a bound still.
        warnings.filterwarnings("ignore", message="Optimal order")
        found, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)
    return float(found)


def count_release(client: Client) -> int:
    """How many noisy updates this client has released, this one included; saved before it leaves."""
    entries = read(client, UPDATES)
    releases = int(entries.get(RELEASES, 0)) + 1
    write(client, UPDATES, {RELEASES: float(releases)})
    return releases


def note_steps(update: Update, client: Client) -> Update:
    """An update of private steps with the ε of all that its client took so far; saved before it leaves."""
    scalars = update.scalars
    entries = dict(read(client, PICTURES))
    kind = f"{scalars[NOISE]!r} {scalars[RATE]!r}"
    entries[kind] = entries.get(kind, 0.0) + scalars[STEPS]
    write(client, PICTURES, entries)
    kinds = {name: name.split() for name in entries if name != COUNT}
    steps = [(float(z), float(q), int(entries[name])) for name, (z, q) in kinds.items()]
    return replace(update, losses={}, scalars={**scalars, EPSILON: epsilon(steps, scalars[DELTA])})


def read(client: Client, account: str) -> Mapping[str, float]:
    """Read one of a client's accounts."""
    kept = client.store.load(client.id, account, LAST)
    return {} if kept is None else kept.scalars


def write(client: Client, account: str, entries: Mapping[str, float]) -> None:
    """Save one of a client's accounts."""
    count = read(client, account).get(COUNT, 0.0) + 1
    client.store.save(client.id, account, int(count), State({}, {**entries, COUNT: count}))


def largest_by_client(lines: Sequence[Mapping[str, Any]], scalar: str) -> dict[str, float]:
    """The largest value that each client reported, from the log of a run."""
    largest: dict[str, float] = {}
    for line in lines:
        for model in line.get("models", {}).values():
            for client, scalars in model.get("scalars", {}).items():
                if scalar in scalars:
                    largest[client] = max(largest.get(client, 0.0), scalars[scalar])
    return largest
