"""Partition rules: clients by a column's values, by name, Dirichlet over classes, or IID."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.partition.assign import Stratum, assign, ordered_components

NOBODY = -1


@dataclass(frozen=True)
class Partition:
    """The client that holds each row.

    Attributes:
        clients: the clients' ids.
        holders: for each row an index into `clients`, or `NOBODY`, `(rows,)`.
    """

    clients: tuple[str, ...]
    holders: NDArray[np.int64]


def by_value(values: Sequence[str], *, column: str) -> Partition:
    """One client per value of a column, in sorted order.

    Raises:
        PartitionError: rows whose value is empty.
    """
    missing = sum(not value for value in values)
    if missing:
        raise PartitionError(
            f"{missing} of {len(values)} pictures have no {column}, so no client holds them; "
            f"fill the column, or leave them out with `where`"
        )
    return by_name(values, sorted(set(values)))


def by_name(values: Sequence[str], clients: Sequence[str]) -> Partition:
    """One client for each of `clients`, in that order; rows with another value are nobody's.

    Raises:
        PartitionError: a client without pictures.
    """
    index = {name: number for number, name in enumerate(clients)}
    partition = Partition(
        tuple(clients), np.array([index.get(value, NOBODY) for value in values], dtype=np.int64)
    )
    refuse_empty(partition, np.ones(len(values), dtype=bool), advice="leave it out, or check its pictures")
    return partition


def dirichlet(
    count: int,
    alpha: float,
    component_ids: NDArray[np.int64],
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """`count` clients with label skew: p_j ~ Dir_N(alpha) for each class j (paper 004, section IV).

    Components of class j are assigned to the clients in the proportions p_j, the same p_j in every split, so
    that a client is tested on the mix that it trains on.

    Args:
        count: N, the number of clients.
        alpha: the smaller, the more the clients differ.
        component_ids: the component of each row `(rows,)`.
        names: what identifies each row.
        labels: the class of each row; empty for unlabelled ones, which are one more class.
        splits: the split of each row.
        seed: the job's seed.

    Raises:
        PartitionError: a client without pictures to train on.
    """

    def proportions(stratum: Stratum) -> NDArray[np.float64]:
        label = stratum[1]
        key = hashlib.sha256(f"{seed}/dirichlet/{label}".encode()).digest()
        return np.random.default_rng(int.from_bytes(key)).dirichlet(np.full(count, alpha))

    strata = list(zip(splits, labels, strict=True))
    partition = _assign_strata(count, component_ids, names, strata, proportions, seed)
    advice = "raise `alpha`, ask for fewer clients, or take another seed"
    refuse_empty(partition, training_rows(splits), advice=advice)
    return partition


def iid(
    count: int, component_ids: NDArray[np.int64], names: Sequence[str], splits: Sequence[str], *, seed: int
) -> Partition:
    """`count` clients with equal random parts of every split; arguments as in `dirichlet`.

    Raises:
        PartitionError: a client without pictures to train on.
    """
    equal = np.full(count, 1 / count)
    partition = _assign_strata(
        count, component_ids, names, [(split,) for split in splits], lambda _: equal, seed
    )
    refuse_empty(partition, training_rows(splits), advice="ask for fewer clients")
    return partition


def _assign_strata(
    count: int,
    component_ids: NDArray[np.int64],
    names: Sequence[str],
    strata: Sequence[Stratum],
    proportions: Callable[[Stratum], NDArray[np.float64]],
    seed: int,
) -> Partition:
    holders = np.empty(len(names), dtype=np.int64)
    items = ordered_components(component_ids, names, strata, seed=seed, purpose="partition")
    for stratum, line in groupby(items, key=lambda item: item.stratum):
        stretch = list(line)
        assigned = assign([len(item.rows) for item in stretch], proportions(stratum))
        for item, client in zip(stretch, assigned, strict=True):
            holders[list(item.rows)] = client
    width = len(str(count - 1))
    return Partition(tuple(f"client-{number:0{width}d}" for number in range(count)), holders)


def training_rows(splits: Sequence[str]) -> NDArray[np.bool_]:
    """The rows to train on `(rows,)`, or all rows where splits are not drawn yet."""
    training = np.array([split == "train" for split in splits], dtype=bool)
    return training if training.any() else np.ones(len(splits), dtype=bool)


def refuse_empty(partition: Partition, counted: NDArray[np.bool_], *, advice: str) -> None:
    """Refuse a partition that gives a client none of the rows that are `counted` `(rows,)`.

    Raises:
        PartitionError: names the clients, and what to do about them.
    """
    held = Counter(partition.holders[counted].tolist())
    empty = [name for number, name in enumerate(partition.clients) if not held[number]]
    if empty:
        raise PartitionError(
            f"client {', '.join(empty)} of {len(partition.clients)} would have no pictures"
            f"{' to train on' if not counted.all() else ''}; {advice}"
        )
