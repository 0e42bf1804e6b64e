"""The partition of a job's pictures: for each its split, its client, and whether its label is known."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.manifest import Manifest, components, linkage_keys
from clients.data.partition_roles import (
    ELSEWHERE,
    divide_sites,
    divide_sites_into,
    draw_server,
    label_mask,
    move_unlabelled,
    partition_unseen,
    refuse_idle_server,
    refuse_leakage,
)
from clients.data.partition_rules import (
    NOBODY,
    Partition,
    Pool,
    Rows,
    Stratum,
    assign_splits,
    by_name,
    by_value,
    dirichlet,
    iid,
    name_of,
    refuse_empty,
    training_rows,
)
from clients.data.sources import Picture, Source
from clients.data.subgroups import Grouping
from registry.bundle.text import on_one_line
from training.data.dataset import SERVER, SPLITS, UNLABELLED_CLIENT
from training.data.settings import ClientsConfig, DataConfig, SplitConfig, numbered

_TRAIN, _TEST = SPLITS.index("train"), SPLITS.index("test")


@dataclass(frozen=True)
class Assignment:
    """The split, the client and the known label of each picture.

    Attributes:
        splits: index into `training.data.dataset.SPLITS`, `(pictures,)`.
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


def partition(
    pictures: Sequence[Picture],
    contents: NDArray[np.uint8],
    codes: Sequence[str],
    grouping: Grouping,
    sources: Sequence[Source],
    config: DataConfig,
    *,
    seed: int,
) -> Assignment:
    """Assign every picture of a job to a split and a client, and mask labels.

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
            in another source too, or `labelled_clients` names no client.
    """
    keys = [
        [*linkage_keys(picture.row), ("bytes", bytes(content))]
        for picture, content in zip(pictures, contents, strict=True)
    ]
    groups = [grouping.names[member] if member >= 0 else "" for member in grouping.members]
    pool = Pool(pictures, components(keys), codes, groups)
    refuse_leakage(pool)
    unseen = pool.unseen
    trained = [source for source in sources if not source.unseen]
    seen = _partition_seen(pool.keep(~unseen), trained, grouping.names, config, seed=seed)
    if not unseen.any():
        return _refuse_shared_names(seen, config)

    asked = partition_unseen(pool.keep(unseen), [source for source in sources if source.unseen], seed=seed)
    splits = np.full(len(pool), _TEST, dtype=np.int64)
    holders = np.empty(len(pool), dtype=np.int64)
    labelled = np.ones(len(pool), dtype=bool)
    splits[~unseen], labelled[~unseen] = seen.splits, seen.labelled
    holders[~unseen] = seen.partition.holders
    holders[unseen] = asked.holders + len(seen.partition.clients)
    partition = Partition((*seen.partition.clients, *asked.clients), holders)
    return _refuse_shared_names(
        Assignment(splits, partition, labelled, seen.communities, asked.clients), config
    )


def _partition_seen(
    pool: Pool, sources: Sequence[Source], groups: Sequence[str], config: DataConfig, *, seed: int
) -> Assignment:
    """The assignment of the pictures that are trained on."""
    declared = _declared_partition(config, pool, groups, sources)
    declared_holders = declared.holders.tolist() if declared else [0] * len(pool)
    strata = [
        (str(home), group, code)
        for home, group, code in zip(declared_holders, pool.groups, pool.codes, strict=True)
    ]
    splits = np.full(len(pool), ELSEWHERE, dtype=np.int64)
    if config.server is not None:
        splits = draw_server(config.server, pool.rows, pool.component_ids, strata, seed=seed)
        splits[np.array(declared_holders) == NOBODY] = ELSEWHERE
        refuse_idle_server(config.server, splits, pool.codes)
    elsewhere = splits == ELSEWHERE

    rest = pool.keep(elsewhere)
    remaining = [stratum for stratum, there in zip(strata, elsewhere, strict=True) if there]
    splits[elsewhere] = _split(config.split, rest, remaining, seed=seed)
    names = [SPLITS[split] for split in splits[elsewhere]]
    declared_rest = Partition(declared.clients, declared.holders[elsewhere]) if declared else None
    if config.server is not None and declared_rest is not None:
        refuse_empty(declared_rest, training_rows(names), advice="lower `server.share`")
    hospitals = _partition_clients(config, declared_rest, rest, sources, names, seed=seed)

    labelled = np.ones(len(pool), dtype=bool)
    rows = Rows(rest.component_ids, rest.names, rest.codes, names)
    labelled[elsewhere] = label_mask(config, hospitals, rows, seed=seed)
    communities = _communities(config, sources)
    if config.unlabelled_at == "one":
        hospitals = move_unlabelled(hospitals, names, rest.codes, labelled[elsewhere])
    clients = (*hospitals.clients, SERVER) if config.server is not None else hospitals.clients
    holders = np.full(len(pool), len(hospitals.clients), dtype=np.int64)
    holders[elsewhere] = hospitals.holders
    holders[pool.train_only & (splits != _TRAIN)] = NOBODY
    return Assignment(splits, Partition(clients, holders), labelled, communities)


def _split(config: SplitConfig, pool: Pool, strata: Sequence[Stratum], *, seed: int) -> NDArray[np.int64]:
    """The split of each picture `(pictures,)`.

    Pictures for training only follow those of their component that are judged by, and change no split: a job
    has the same test pictures with and without them.
    """
    judged = ~pool.train_only
    known = pool.keep(judged)
    of_known = [stratum for stratum, keep in zip(strata, judged, strict=True) if keep]
    splits = np.full(len(pool), _TRAIN, dtype=np.int64)
    splits[judged] = assign_splits(config, known.rows, known.component_ids, of_known, seed=seed)
    known_splits = dict(zip(known.component_ids.tolist(), splits[judged].tolist(), strict=True))
    splits[~judged] = [known_splits.get(number, _TRAIN) for number in pool.component_ids[~judged].tolist()]
    return splits


def _partition_clients(
    config: DataConfig,
    declared: Partition | None,
    pool: Pool,
    sources: Sequence[Source],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """The client of each picture: as declared, divided where `count` asks for it, or drawn by chance."""
    clients, rows = config.clients, Rows(pool.component_ids, pool.names, pool.codes, splits)
    if clients.by == "source" and declared is not None:
        return divide_sites_into(declared, [source.count for source in sources], rows, seed=seed)
    if clients.count is None:
        if declared is None:
            raise PartitionError(f"clients by {clients.by} needs `count`")
        return declared
    if declared is not None:
        return divide_sites(declared, clients.count, rows, seed=seed)
    if clients.alpha is None:
        return iid(clients.count, rows, seed=seed)
    return dirichlet(clients.count, clients.alpha, rows, seed=seed)


def _declared_partition(
    config: DataConfig, pool: Pool, groups: Sequence[str], sources: Sequence[Source]
) -> Partition | None:
    """The client of each picture where the manifests declare it; None where it is drawn by chance."""
    clients = config.clients
    if clients.by == "subgroup":
        return by_name(pool.groups, groups)
    if clients.by in ("manifest", "source"):
        return by_name([picture.source for picture in pool.pictures], [source.name for source in sources])
    if clients.column is not None:
        return by_value([row.value(clients.column) for row in pool.rows], column=clients.column)
    return None


def _communities(config: DataConfig, sources: Sequence[Source]) -> dict[str, tuple[str, ...]]:
    """The hospitals of each of the job's `sources`, where they are the clients."""
    if not config.sources or config.clients.by not in ("manifest", "source"):
        return {}
    return {source.name: numbered(source.name, source.count) for source in sources}


def _refuse_shared_names(assignment: Assignment, config: DataConfig) -> Assignment:
    """Refuse two clients of one name, and a hospital that is called as the coordinator's own client is.

    Raises:
        PartitionError: names them.
    """
    clients = assignment.partition.clients
    shared = sorted({client for client in clients if clients.count(client) > 1})
    if shared:
        raise PartitionError(
            f"two clients would be called {', '.join(shared)}: {SERVER}, {UNLABELLED_CLIENT} and unseen "
            f"sources are clients of their own; give the hospital or the source another name"
        )
    if SERVER in clients and config.server is None:
        raise PartitionError(
            f"a hospital is called {SERVER}, which is the name of the client that the coordinator owns; give "
            "it another name in the column or the file that names it"
        )
    return assignment


def partition_manifest(manifest: Manifest, rule: ClientsConfig, *, seed: int) -> dict[str, Manifest]:
    """One manifest per client, by a name that a file may have.

    Raises:
        UnknownColumnError: the rule names a column that the manifest does not have.
        PartitionError: the rule is none of column, dirichlet and iid, asks for fewer clients than the column
            has values, or leaves a client without pictures.
    """
    partition = _partition(manifest, rule, seed)
    composed = [unicodedata.normalize("NFC", client) for client in partition.clients]
    names = [re.sub(r"[^\w.-]+", "-", client).strip("-.") or "client" for client in composed]
    files = [name.casefold() for name in names]  # which Windows and macOS do not tell apart
    if alike := [one for one, file in zip(partition.clients, files, strict=True) if files.count(file) > 1]:
        shown = ", ".join(map(on_one_line, alike))
        raise PartitionError(f"clients {shown} cannot be told apart as file names; rename them in the column")
    return {
        name: manifest.keep([manifest.rows[row] for row in (partition.holders == number).nonzero()[0]])
        for number, name in enumerate(names)
    }


def _partition(manifest: Manifest, rule: ClientsConfig, seed: int) -> Partition:
    rows = Rows(
        components([linkage_keys(row) for row in manifest.rows]),
        [name_of(row) for row in manifest.rows],
        manifest.values("label"),
        manifest.values("split"),
    )
    if rule.by == "column" and rule.column is not None:
        sites = by_value(manifest.values(rule.column), column=rule.column)
        return sites if rule.count is None else divide_sites(sites, rule.count, rows, seed=seed)
    if rule.by == "iid" and rule.count is not None:
        return iid(rule.count, rows, seed=seed)
    if rule.by == "dirichlet" and rule.count is not None and rule.alpha is not None:
        return dirichlet(rule.count, rule.alpha, rows, seed=seed)
    raise PartitionError(f"a manifest is parted by column, dirichlet or iid, not by {rule.by}")
