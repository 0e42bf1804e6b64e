"""Who holds each picture, in which split it is, and whether its label is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import Stratum
from clients.data.dividing import divide, divide_into
from clients.data.errors import PartitionError
from clients.data.filtering import Picture
from clients.data.gathering import gather_unlabelled
from clients.data.groups import components, kinship
from clients.data.lot import Lot
from clients.data.partitions import (
    NOBODY,
    Partition,
    by_name,
    by_value,
    dirichlet,
    iid,
    refuse_empty,
    training_rows,
)
from clients.data.server import ELSEWHERE, draw_server, refuse_idle_server
from clients.data.sources import Source
from clients.data.splits import assign_splits
from clients.data.subgroups import Grouping
from clients.data.unseen import part_unseen, refuse_seen
from clients.data.withholding import withhold
from training.data import SERVER, SPLITS, UNLABELLED_CLIENT, DataConfig, SplitConfig, numbered

_TRAIN, _TEST = SPLITS.index("train"), SPLITS.index("test")


@dataclass(frozen=True)
class Shares:
    """What each picture is for.

    Attributes:
        splits: index into `training.data.SPLITS`, `(pictures,)`.
        partition: who holds it: hospitals, then the client of unlabelled pictures, the server and the unseen
            clients, where there are any.
        labelled: whether its holder knows its label, if it has one, `(pictures,)`.
        communities: the hospitals of each source, by its name, where clients are by source.
        unseen: the clients that train nothing.
    """

    splits: NDArray[np.int64]
    partition: Partition
    labelled: NDArray[np.bool_]
    communities: Mapping[str, tuple[str, ...]]
    unseen: tuple[str, ...] = ()


def share_out(
    pictures: Sequence[Picture],
    contents: NDArray[np.uint8],
    codes: Sequence[str],
    grouping: Grouping,
    sources: Sequence[Source],
    config: DataConfig,
    *,
    seed: int,
) -> Shares:
    """Splits, holders and known labels of all pictures.

    The server's pictures are drawn first, over all clients' pictures, and the splits of what remains next, so
    that no lesion, patient or duplicate is in two splits even where two clients hold it. Splits are drawn
    before the values of a column or the sources are divided among clients, so that the number of clients does
    not change them. Files with the same bytes are duplicates, whatever their manifest says.

    Args:
        pictures: the pictures.
        contents: SHA-256 of each picture's bytes, `(pictures, 32)`.
        codes: the class of each, empty where it is unlabelled.
        grouping: the subgroup of each.
        sources: all manifests.
        config: the job's `data` block.
        seed: the job's seed.

    Raises:
        SplitError: pictures that belong together were given different splits.
        PartitionError: a client would have no pictures or another's name, pictures of an unseen source are
            in another source too, or `labelled_clients` names nobody.
    """
    keys = [
        [*kinship(picture.row), ("bytes", bytes(content))]
        for picture, content in zip(pictures, contents, strict=True)
    ]
    groups = [grouping.names[member] if member >= 0 else "" for member in grouping.members]
    lot = Lot(pictures, components(keys), codes, groups)
    refuse_seen(lot)
    unseen = lot.unseen
    trained = [source for source in sources if not source.unseen]
    seen = _share_seen(lot.keep(~unseen), trained, grouping.names, config, seed=seed)
    if not unseen.any():
        return _named_apart(seen, config)

    asked = part_unseen(lot.keep(unseen), [source for source in sources if source.unseen], seed=seed)
    splits = np.full(len(lot), _TEST, dtype=np.int64)
    holders = np.empty(len(lot), dtype=np.int64)
    labelled = np.ones(len(lot), dtype=bool)
    splits[~unseen], labelled[~unseen] = seen.splits, seen.labelled
    holders[~unseen] = seen.partition.holders
    holders[unseen] = asked.holders + len(seen.partition.clients)
    partition = Partition((*seen.partition.clients, *asked.clients), holders)
    return _named_apart(Shares(splits, partition, labelled, seen.communities, asked.clients), config)


def _share_seen(
    lot: Lot, sources: Sequence[Source], groups: Sequence[str], config: DataConfig, *, seed: int
) -> Shares:
    """What the pictures that are trained on are for."""
    settled = _settled(config, lot, groups, sources)
    homes = settled.holders.tolist() if settled else [0] * len(lot)
    strata = [
        (str(home), group, code) for home, group, code in zip(homes, lot.groups, lot.codes, strict=True)
    ]
    splits = np.full(len(lot), ELSEWHERE, dtype=np.int64)
    if config.server is not None:
        splits = draw_server(config.server, lot.rows, lot.numbers, strata, seed=seed)
        splits[np.array(homes) == NOBODY] = ELSEWHERE
        refuse_idle_server(config.server, splits, lot.codes)
    elsewhere = splits == ELSEWHERE

    rest = lot.keep(elsewhere)
    remaining = [stratum for stratum, there in zip(strata, elsewhere, strict=True) if there]
    splits[elsewhere] = _split(config.split, rest, remaining, seed=seed)
    names = [SPLITS[split] for split in splits[elsewhere]]
    homes_of_rest = Partition(settled.clients, settled.holders[elsewhere]) if settled else None
    if config.server is not None and homes_of_rest is not None:
        refuse_empty(homes_of_rest, training_rows(names), advice="lower `server.share`")
    hospitals = _parted(config, homes_of_rest, rest, sources, names, seed=seed)

    labelled = np.ones(len(lot), dtype=bool)
    labelled[elsewhere] = withhold(config, hospitals, rest.numbers, rest.names, rest.codes, names, seed=seed)
    communities = _communities(config, sources)
    if config.unlabelled_at == "one":
        hospitals = gather_unlabelled(hospitals, names, rest.codes, labelled[elsewhere])
    clients = (*hospitals.clients, SERVER) if config.server is not None else hospitals.clients
    holders = np.full(len(lot), len(hospitals.clients), dtype=np.int64)
    holders[elsewhere] = hospitals.holders
    holders[lot.train_only & (splits != _TRAIN)] = NOBODY
    return Shares(splits, Partition(clients, holders), labelled, communities)


def _split(config: SplitConfig, lot: Lot, strata: Sequence[Stratum], *, seed: int) -> NDArray[np.int64]:
    """The split of each picture `(pictures,)`.

    Pictures for training only follow those of their component that are judged by, and change no split: a job
    has the same test pictures with and without them.
    """
    judged = ~lot.train_only
    known = lot.keep(judged)
    of_known = [stratum for stratum, keep in zip(strata, judged, strict=True) if keep]
    splits = np.full(len(lot), _TRAIN, dtype=np.int64)
    splits[judged] = assign_splits(config, known.rows, known.numbers, of_known, seed=seed)
    settled = dict(zip(known.numbers.tolist(), splits[judged].tolist(), strict=True))
    splits[~judged] = [settled.get(number, _TRAIN) for number in lot.numbers[~judged].tolist()]
    return splits


def _parted(
    config: DataConfig,
    settled: Partition | None,
    lot: Lot,
    sources: Sequence[Source],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """Who holds each picture: as settled, divided where `count` asks for it, or drawn by chance."""
    clients, names = config.clients, lot.names
    count, alpha = clients.count, clients.alpha
    if clients.by == "source" and settled is not None:
        parts = [source.count for source in sources]
        advice = "lower the `count` of its source, or check its pictures"
        return divide_into(settled, parts, lot.numbers, names, lot.codes, splits, seed=seed, advice=advice)
    if count is None:
        if settled is None:
            raise PartitionError(f"clients by {clients.by} needs `count`")
        return settled
    if settled is not None:
        return divide(settled, count, lot.numbers, names, lot.codes, splits, seed=seed)
    if alpha is None:
        return iid(count, lot.numbers, names, splits, seed=seed)
    return dirichlet(count, alpha, lot.numbers, names, lot.codes, splits, seed=seed)


def _settled(
    config: DataConfig, lot: Lot, groups: Sequence[str], sources: Sequence[Source]
) -> Partition | None:
    """Who holds each picture where the manifests say so; None where it is drawn by chance."""
    clients = config.clients
    if clients.by == "subgroup":
        return by_name(lot.groups, groups)
    if clients.by in ("manifest", "source"):
        return by_name([picture.source for picture in lot.pictures], [source.name for source in sources])
    if clients.column is not None:
        return by_value([row.value(clients.column) for row in lot.rows], column=clients.column)
    return None


def _communities(config: DataConfig, sources: Sequence[Source]) -> dict[str, tuple[str, ...]]:
    """The hospitals of each of the job's `sources`, where they are the clients."""
    if not config.sources or config.clients.by not in ("manifest", "source"):
        return {}
    return {source.name: numbered(source.name, source.count) for source in sources}


def _named_apart(shares: Shares, config: DataConfig) -> Shares:
    """Refuse two clients of one name, and a hospital that is called as the coordinator's own client is.

    Raises:
        PartitionError: names them.
    """
    clients = shares.partition.clients
    twins = sorted({client for client in clients if clients.count(client) > 1})
    if twins:
        raise PartitionError(
            f"two clients would be called {', '.join(twins)}: {SERVER}, {UNLABELLED_CLIENT} and unseen "
            f"sources are clients of their own; give the hospital or the source another name"
        )
    if SERVER in clients and config.server is None:
        raise PartitionError(
            f"a hospital is called {SERVER}, which is the name of the client that the coordinator owns; give "
            "it another name in the column or the file that names it"
        )
    return shares
