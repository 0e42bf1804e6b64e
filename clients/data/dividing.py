"""More clients than sites: sites with many pictures are divided (Yan et al. 2023, section IV-B).

Sites that hold far more than others are divided into sub-clients without overlap: 12 clients of the 8 sites
of COVID-FL, 10 of the 4 of Skin-FL. The paper says neither how many clients a site becomes nor how its
pictures are dealt. Here each site has one client, the further ones go by highest averages (D'Hondt), and a
site's components are dealt evenly to its clients.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import deal, gather
from clients.data.errors import PartitionError
from clients.data.partitions import NOBODY, Partition, refuse_empty, training_rows
from training.data import numbered


def divide(
    sites: Partition,
    count: int,
    numbers: NDArray[np.int64],
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """`count` clients, each with the pictures of one site or, `SITE-NUMBER`, with an equal part of them.

    A site's training pictures say how many clients it becomes, or all of its pictures where no splits are
    drawn yet. Arguments as in `divide_into`.

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
    return divide_into(sites, parts, numbers, names, labels, splits, seed=seed, advice=advice)


def divide_into(
    sites: Partition,
    parts: Sequence[int],
    numbers: NDArray[np.int64],
    names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
    advice: str,
) -> Partition:
    """As many clients of each site as `parts` says, `SITE-NUMBER`, each with an equal part of its pictures.

    A site's components are laid out by label within each split and dealt so that every stretch of that line
    is divided evenly. A component that two sites share is at both, and at each of them whole.

    Args:
        sites: who holds what before sites are divided.
        parts: how many clients each site becomes; a single one is called like the site.
        numbers: the component of each row `(rows,)`.
        names: what identifies each row.
        labels: the class of each row; unlabelled ones, which have none, are dealt as one more class.
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
        items = gather(numbers[rows], [names[row] for row in rows], strata, seed=seed, purpose="partition")
        for _, line in groupby(items, key=lambda item: item.stratum[0]):
            stretch = list(line)
            dealt = deal([len(item.rows) for item in stretch], np.full(number, 1 / number))
            for item, part in zip(stretch, dealt, strict=True):
                holders[rows[list(item.rows)]] = len(clients) + part
        clients += numbered(name, number)
    _refuse_twins(clients)
    partition = Partition(tuple(clients), holders)
    refuse_empty(partition, training_rows(splits), advice=advice)
    return partition


def apportion(pictures: Sequence[int], count: int) -> list[int]:
    """How many clients each site becomes: one, and the further ones by highest averages (D'Hondt).

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


def _refuse_twins(clients: Sequence[str]) -> None:
    twins = sorted(name for name, times in Counter(clients).items() if times > 1)
    if twins:
        raise PartitionError(
            f"two clients would be called {', '.join(twins)}: one is a value of the column, the other a part "
            f"of a divided one; change the value in the manifest, or ask for another `count`"
        )
