"""The server's labelled pictures, drawn from every client's (Bdair et al. 2022, section 3).

The paper has "ten clients besides the global model": the server holds labelled pictures of its own, to train
on where no client has labels, and to judge peers by. It does not say how they were drawn. Here they are a
share of every client's components, drawn before anything else: the others' splits are of what remains.

One client that holds all unlabelled training pictures, as in Semi-FL (Yan et al. 2023, section V).

Dividing sites into several clients each, where there are more clients than sites (Yan et al. 2023, IV-B).

Sites that hold far more than others are divided into sub-clients without overlap: 12 clients of the 8 sites
of COVID-FL, 10 of the 4 of Skin-FL. The paper says neither how many clients a site becomes nor how its
pictures are distributed. Here each site has one client, the further ones go by highest averages (D'Hondt),
and a site's components are assigned evenly to its clients.

Clients of unseen sources: never trained on, only evaluated.

Label masking for semi-supervised jobs: which training pictures keep their labels.

L is the share of labelled pictures in each device's training set (Wu et al. 2022, section V-A: 10, 20, 40 and
80 %; Yan et al. 2023: 10, 30, 70 and 100 %).

Each client's components (`clients.data.manifest`) are put in one order, and the first of them keep
their labels. The order does not know L, so that what is labelled at 10 % is labelled at 20 %: assigning in
the proportions L and 1 - L would not give that. Classes take turns in it as parties do by Sainte-Laguë's
method, which keeps their mix in every prefix as well as rounding allows.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.manifest import Row
from clients.data.output import listing
from clients.data.partition_rules import (
    NOBODY,
    Component,
    Partition,
    Pool,
    Rows,
    Stratum,
    by_name,
    deal,
    fixed_split,
    name_of,
    ordered_components,
    refuse_empty,
    refuse_straddling,
    training_rows,
)
from clients.data.sources import Source
from registry.bundle.text import nearest
from training.data.dataset import SPLITS, UNLABELLED_CLIENT
from training.data.settings import DataConfig, ServerConfig, numbered

ELSEWHERE = -1
_TRAIN, _VALIDATION = SPLITS.index("train"), SPLITS.index("validation")


def draw_server(
    config: ServerConfig,
    rows: Sequence[Row],
    component_ids: NDArray[np.int64],
    strata: Sequence[Stratum],
    *,
    seed: int,
) -> NDArray[np.int64]:
    """Each row's split at the server, `(rows,)`, an index into `SPLITS`; `ELSEWHERE` for a client's rows.

    Components are laid out by client, subgroup and label and assigned to the server and to their clients in
    the proportions s and 1 - s, each client's afresh: what the server has of one does not depend on the
    others. A component whose manifest gives it to calibration or test stays there. Of all that the server
    got, in the same order, t are for training and 1 - t for validation, but where the manifest gives a
    component to one of them. Which pictures are the server's does not depend on t.

    Args:
        config: the proportions s and t.
        rows: the pictures of all clients.
        component_ids: the component of each row `(rows,)`.
        strata: (client, subgroup, label) of each row.
        seed: the job's seed.

    Raises:
        SplitError: rows of one component were given different splits.
    """
    refuse_straddling(rows, component_ids)
    items = ordered_components(
        component_ids, [name_of(row) for row in rows], strata, seed=seed, purpose="server"
    )
    kept = {"calibration": 1, "test": 1}
    of_server = deal(
        items,
        lambda _: [config.share, 1 - config.share],
        by=1,
        fixed=lambda item: kept.get(fixed_split(item, rows)),
    )
    taken = [item for item, receiver in of_server if receiver == 0]
    named = {"train": 0, "validation": 1}
    splits = np.full(len(rows), ELSEWHERE, dtype=np.int64)
    for item, part in deal(
        taken,
        lambda _: [config.train, 1 - config.train],
        by=0,
        fixed=lambda item: named.get(fixed_split(item, rows)),
    ):
        splits[list(item.rows)] = (_TRAIN, _VALIDATION)[part]
    return splits


def refuse_idle_server(config: ServerConfig, splits: NDArray[np.int64], codes: Sequence[str]) -> None:
    """Refuse a server share that leaves the server no pictures, or no labels to train on.

    Args:
        config: what was asked.
        splits: what the server has, as of `draw_server`.
        codes: the class of each row, empty where it is unlabelled.

    Raises:
        PartitionError: no pictures, or no labelled ones to train on although it should train.
    """
    labelled = np.array([bool(code) for code in codes], dtype=bool)
    wanted, what = splits != ELSEWHERE, "no pictures"
    if config.train > 0:
        wanted, what = (splits == _TRAIN) & labelled, "no labelled pictures to train on"
    if not wanted.any():
        raise PartitionError(
            f"the server, with the share {config.share:g} of {len(splits)} pictures and {config.train:g} of "
            f"that for training, would have {what}; raise `server.share`, or remove `server`"
        )


def move_unlabelled(
    hospitals: Partition, splits: Sequence[str], codes: Sequence[str], labelled: NDArray[np.bool_]
) -> Partition:
    """The partition with unlabelled training pictures moved from the hospitals to a client of their own.

    Validation, calibration and test stay where they are.

    Args:
        hospitals: who holds what.
        splits: the split of each row.
        codes: the class of each row, empty where it never had one.
        labelled: whether a class that a row has is known `(rows,)`.

    Raises:
        PartitionError: there are no unlabelled training pictures, or a hospital is left with nothing to
            train on.
    """
    training = np.array([split == "train" for split in splits], dtype=bool) & (hospitals.holders != NOBODY)
    known = labelled & np.array([bool(code) for code in codes], dtype=bool)
    moved = training & ~known
    if not moved.any():
        raise PartitionError(
            f"the client {UNLABELLED_CLIENT} would have no pictures: all training pictures have labels; "
            f"lower `label_fraction`, name `labelled_clients`, or remove `unlabelled_at`"
        )
    stayed = Partition(hospitals.clients, np.where(moved, NOBODY, hospitals.holders))
    refuse_empty(
        stayed,
        training,
        advice=f"all of them are unlabelled and would be at {UNLABELLED_CLIENT}; leave `unlabelled_at` at "
        f"`clients`, or leave labels at each client",
    )
    return Partition(
        (*hospitals.clients, UNLABELLED_CLIENT), np.where(moved, len(hospitals.clients), hospitals.holders)
    )


def divide_sites(sites: Partition, count: int, rows: Rows, *, seed: int) -> Partition:
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
    held = Counter(sites.holders[training_rows(rows.splits)].tolist())
    parts = apportion([held[site] for site in range(len(sites.clients))], count)
    return divide_sites_into(
        sites, parts, rows, seed=seed, advice="ask for fewer clients, or leave the value out"
    )


OF_A_SOURCE = "lower the `count` of its source, or check its pictures"


def divide_sites_into(
    sites: Partition, parts: Sequence[int], rows: Rows, *, seed: int, advice: str = OF_A_SOURCE
) -> Partition:
    """Divide each site into as many clients as `parts` says, `SITE-NUMBER`, with equal parts of its pictures.

    A site's components are laid out by label within each split and assigned so that every stretch of that
    line is divided evenly. A component that two sites share is at both, and at each of them whole.

    Args:
        sites: who holds what before sites are divided.
        parts: how many clients each site becomes; a single one is called like the site.
        rows: the pictures; unlabelled ones are one more class.
        seed: the job's seed.
        advice: what to do about a client without pictures.

    Raises:
        PartitionError: two clients of one name, or a client without pictures to train on.
    """
    clients: list[str] = []
    holders = np.full(len(rows.names), NOBODY, dtype=np.int64)
    for site, (name, number) in enumerate(zip(sites.clients, parts, strict=True)):
        own = (sites.holders == site).nonzero()[0]
        strata = [(rows.splits[row], rows.codes[row]) for row in own]
        names = [rows.names[row] for row in own]
        items = ordered_components(rows.component_ids[own], names, strata, seed=seed, purpose="partition")
        for item, part in deal(items, lambda _, number=number: np.full(number, 1 / number), by=1):  # type: ignore[misc]
            holders[own[list(item.rows)]] = len(clients) + part
        clients += numbered(name, number)
    _refuse_shared_names(clients)
    partition = Partition(tuple(clients), holders)
    refuse_empty(partition, training_rows(rows.splits), advice=advice)
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


def refuse_leakage(pool: Pool) -> None:
    """Refuse components that are both in an unseen source and in one that is trained on.

    A picture of a lesion or a patient that is trained on is not unseen.

    Raises:
        PartitionError: names the first twenty.
    """
    sides: dict[int, dict[bool, tuple[str, Row]]] = {}
    for picture, number in zip(pool.pictures, pool.component_ids.tolist(), strict=True):
        sides.setdefault(number, {}).setdefault(picture.unseen, (picture.source, picture.row))
    shared = [
        ", ".join(f"{name_of(row)} ({row.image}) of {source}" for source, row in by_side.values())
        for by_side in sides.values()
        if len(by_side) > 1
    ]
    if shared:
        raise PartitionError(
            f"{len(shared)} groups of pictures of one lesion, patient or duplicate are in an unseen source "
            f"and in one that is trained on:\n{listing(shared)}\nleave them out of one with `where`; where "
            f"two hospitals only count alike, give the ids a prefix"
        )


def partition_unseen(pool: Pool, sources: Sequence[Source], *, seed: int) -> Partition:
    """The clients of the unseen `sources`, whose pictures are `pool`.

    Raises:
        PartitionError: a client without pictures.
    """
    declared = by_name([picture.source for picture in pool.pictures], [source.name for source in sources])
    rows = Rows(pool.component_ids, pool.names, pool.codes, ["test"] * len(pool))
    return divide_sites_into(declared, [source.count for source in sources], rows, seed=seed)


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
