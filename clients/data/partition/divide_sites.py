"""Dividing sites into several clients each, where there are more clients than sites (Yan et al. 2023, IV-B).

Sites that hold far more than others are divided into sub-clients without overlap: 12 clients of the 8 sites
of COVID-FL, 10 of the 4 of Skin-FL. The paper says neither how many clients a site becomes nor how its
pictures are distributed. Here each site has one client, the further ones go by highest averages (D'Hondt),
and a site's components are assigned evenly to its clients.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.partition.assign import assign, ordered_components
from clients.data.partition.rules import NOBODY, Partition, refuse_empty, training_rows
from training.data.settings import numbered


def divide_sites(
    sites: Partition,
    count: int,
    component_ids: NDArray[np.int64],
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """Divide sites into `count` clients, named `SITE-NUMBER`, a site's pictures evenly among its clients.

    A site's training pictures say how many clients it becomes, or all of its pictures where no splits are
    drawn yet. Arguments as in `divide_sites_into`.

    Raises:
        PartitionError: fewer clients than sites, two clients of one name, or a client without pictures to
            train on.
    """
    if count < len(sites.clients):
        raise PartitionError(
            f"{count} clients are too few: the column has {len(sites.clients)} values, each with a client of "
            f"its own; raise `count` to {len(sites.clients)} or more, or leave values out with `where`"
        )
    held = Counter(sites.holders[training_rows(splits)].tolist())
    parts = apportion([held[site] for site in range(len(sites.clients))], count)
    advice = "ask for fewer clients, or leave the value out"
    return divide_sites_into(sites, parts, component_ids, names, labels, splits, seed=seed, advice=advice)


def divide_sites_into(
    sites: Partition,
    parts: Sequence[int],
    component_ids: NDArray[np.int64],
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
    advice: str,
) -> Partition:
    """Divide each site into as many clients as `parts` says, `SITE-NUMBER`, with equal parts of its pictures.

    A site's components are laid out by label within each split and assigned so that every stretch of that
    line is divided evenly. A component that two sites share is at both, and at each of them whole.

    Args:
        sites: who holds what before sites are divided.
        parts: how many clients each site becomes; a single one is called like the site.
        component_ids: the component of each row `(rows,)`.
        names: what identifies each row.
        labels: the class of each row; unlabelled ones, which have none, are one more class.
        splits: the split of each row.
        seed: the job's seed.
        advice: what to do about a client without pictures.

    Raises:
        PartitionError: two clients of one name, or a client without pictures to train on.
    """
    clients: list[str] = []
    holders = np.full(len(names), NOBODY, dtype=np.int64)
    for site, (name, number) in enumerate(zip(sites.clients, parts, strict=True)):
        rows = (sites.holders == site).nonzero()[0]
        strata = [(splits[row], labels[row]) for row in rows]
        items = ordered_components(
            component_ids[rows], [names[row] for row in rows], strata, seed=seed, purpose="partition"
        )
        for _, line in groupby(items, key=lambda item: item.stratum[0]):
            stretch = list(line)
            assigned = assign([len(item.rows) for item in stretch], np.full(number, 1 / number))
            for item, part in zip(stretch, assigned, strict=True):
                holders[rows[list(item.rows)]] = len(clients) + part
        clients += numbered(name, number)
    _refuse_shared_names(clients)
    partition = Partition(tuple(clients), holders)
    refuse_empty(partition, training_rows(splits), advice=advice)
    return partition


def apportion(pictures: Sequence[int], count: int) -> list[int]:
    """The number of clients of each site: one, and the further ones by highest averages (D'Hondt).

    Each goes to the site that would, with it, have the most pictures per client: argmax_s n_s / (k_s + 1),
    the first site where several tie.

    Args:
        pictures: n_s, the pictures of each site.
        count: the number of clients, at least that of the sites.
    """
    parts = [1] * len(pictures)
    for _ in range(count - len(pictures)):
        averages = [held / (part + 1) for held, part in zip(pictures, parts, strict=True)]
        parts[int(np.argmax(averages))] += 1
    return parts


def _refuse_shared_names(clients: Sequence[str]) -> None:
    shared = sorted(name for name, times in Counter(clients).items() if times > 1)
    if shared:
        raise PartitionError(
            f"two clients would be called {', '.join(shared)}: one is a value of the column, the other a "
            f"part of a divided one; change the value in the manifest, or ask for another `count`"
        )
