"""Label masking for semi-supervised jobs: which training pictures keep their labels.

L is the share of labelled pictures in each device's training set (Wu et al. 2022, section V-A: 10, 20, 40 and
80 %; Yan et al. 2023: 10, 30, 70 and 100 %).

Each client's components (`clients.data.manifests.manifest`) are put in one order, and the first of them keep
their labels. The order does not know L, so that what is labelled at 10 % is labelled at 20 %: assigning in
the proportions L and 1 - L would not give that. Classes take turns in it as parties do by Sainte-Laguë's
method, which keeps their mix in every prefix as well as rounding allows.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.partition.rules import NOBODY, Component, Partition, Rows, ordered_components
from registry.bundle.text import nearest
from training.data.settings import DataConfig


def draw_labelled(fraction: float, holders: NDArray[np.int64], rows: Rows, *, seed: int) -> NDArray[np.bool_]:
    """Whether the label of each row is kept, `(rows,)`: the fraction L of every client's training pictures.

    All rows that are not for training keep theirs. Of a client's N labelled training pictures, those of a
    component keep their labels if b + s / 2 <= L N, where s is their number and b that of the pictures before
    them in the client's order: as near to L N as whole components allow. The first component always keeps
    its labels. Another client's rows have no say.

    Args:
        fraction: L, in (0, 1].
        holders: the client of each row, or `NOBODY`, `(rows,)`.
        rows: the pictures.
        seed: the job's seed.
    """
    labelled = [bool(code) and split == "train" for code, split in zip(rows.codes, rows.splits, strict=True)]
    drawn = np.array(labelled, dtype=bool) & (holders != NOBODY)
    kept: NDArray[np.bool_] = ~drawn
    for client in np.unique(holders[drawn]):
        own = (drawn & (holders == client)).nonzero()[0]
        strata = [(rows.codes[row],) for row in own]
        names = [rows.names[row] for row in own]
        items = ordered_components(rows.component_ids[own], names, strata, seed=seed, purpose="labels")
        # Rounded, so that fractions like 0.7, which no float holds exactly, round where they should.
        wanted = round(fraction * len(own), 9)
        before = 0
        for item in _in_turns(items):
            size = len(item.rows)
            if before and before + size / 2 > wanted:
                break
            kept[own[list(item.rows)]] = True
            before += size
    return kept


def label_mask(config: DataConfig, hospitals: Partition, rows: Rows, *, seed: int) -> NDArray[np.bool_]:
    """Whether the label of each row is kept, `(rows,)`: at `labelled_clients` by `draw_labelled`, else never.

    Rows that are not for training, and those that no hospital holds, keep theirs.

    Args:
        config: the job's `data` block: `label_fraction` and `labelled_clients`.
        hospitals: who holds what.
        rows: the pictures.
        seed: the job's seed.

    Raises:
        PartitionError: `labelled_clients` names a client that is none of the hospitals.
    """
    holders = hospitals.holders
    keeps = np.isin(holders, _labelled_clients(config, hospitals.clients))
    training = np.array([split == "train" for split in rows.splits], dtype=bool)
    kept = draw_labelled(config.label_fraction, np.where(keeps, holders, NOBODY), rows, seed=seed)
    lost: NDArray[np.bool_] = training & ~keeps & (holders != NOBODY)
    return kept & ~lost


def _labelled_clients(config: DataConfig, hospitals: Sequence[str]) -> list[int]:
    """The indices of the `hospitals` that keep labels of training pictures."""
    if config.label_fraction == 0:
        return []
    for name in config.labelled_clients or ():
        if name not in hospitals:
            raise PartitionError(
                f"`labelled_clients` names {name!r}, which is no hospital; {nearest(name, list(hospitals))}"
            )
    named = hospitals if config.labelled_clients is None else config.labelled_clients
    return [number for number, name in enumerate(hospitals) if name in named]


def _in_turns(items: Sequence[Component]) -> list[Component]:
    """The components ordered by (b_c + s / 2) / n_c within their class c, ties by class (Sainte-Laguë).

    n_c are the pictures of the class, and b_c those before the component within it. With one picture a
    component that is Sainte-Laguë's order, by n_c / (2 b_c + 1).
    """
    totals: Counter[tuple[str, ...]] = Counter()
    for item in items:
        totals[item.stratum] += len(item.rows)
    before: Counter[tuple[str, ...]] = Counter()
    places = []
    for item in items:
        places.append((before[item.stratum] + len(item.rows) / 2) / totals[item.stratum])
        before[item.stratum] += len(item.rows)
    order = sorted(range(len(items)), key=lambda number: (places[number], items[number].stratum))
    return [items[number] for number in order]
