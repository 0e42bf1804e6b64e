"""Who holds each picture, in which split it is, and whether its label is known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import name_of
from clients.data.dividing import divide
from clients.data.errors import PartitionError
from clients.data.filtering import Picture
from clients.data.groups import components, kinship
from clients.data.partitions import Partition, by_name, by_value, dirichlet, iid
from clients.data.splits import assign_splits
from clients.data.subgroups import Grouping
from clients.data.withholding import keep_labels
from training.data import SPLITS, ClientsConfig, DataConfig


@dataclass(frozen=True)
class Shares:
    """What each picture is for.

    Attributes:
        splits: index into `training.data.SPLITS`, `(pictures,)`.
        partition: who holds it.
        labelled: whether its holder knows its label, if it has one, `(pictures,)`.
    """

    splits: NDArray[np.int64]
    partition: Partition
    labelled: NDArray[np.bool_]


def share_out(
    pictures: Sequence[Picture],
    contents: NDArray[np.uint8],
    codes: Sequence[str],
    grouping: Grouping,
    sources: Sequence[str],
    config: DataConfig,
    *,
    seed: int,
) -> Shares:
    """Splits, holders and known labels of all pictures.

    Splits are drawn over all clients' pictures, so that no lesion, patient or duplicate is in two splits even
    where two clients hold it. They are drawn before the values of a column are divided among clients, so that
    the number of clients does not change them. Files with the same bytes are duplicates, whatever their
    manifest says.

    Args:
        pictures: the pictures.
        contents: SHA-256 of each picture's bytes, `(pictures, 32)`.
        codes: the class of each, empty where it is unlabelled.
        grouping: the subgroup of each.
        sources: the names of all manifests.
        config: the job's `data` block.
        seed: the job's seed.

    Raises:
        SplitError: pictures that belong together were given different splits.
        PartitionError: a client would have no pictures.
    """
    rows = [picture.row for picture in pictures]
    keys = [[*kinship(row), ("bytes", bytes(content))] for row, content in zip(rows, contents, strict=True)]
    numbers = components(keys)
    groups = [grouping.names[member] if member >= 0 else "" for member in grouping.members]
    settled = _settled(config, pictures, groups, grouping, sources)
    homes = settled.holders.tolist() if settled else [0] * len(rows)
    strata = [(str(home), group, code) for home, group, code in zip(homes, groups, codes, strict=True)]
    splits = assign_splits(config.split, rows, numbers, strata, seed=seed)
    names = [name_of(row) for row in rows]
    split_names = [SPLITS[split] for split in splits]
    partition = _parted(config.clients, settled, numbers, names, codes, split_names, seed=seed)
    labelled = keep_labels(
        config.label_fraction, partition.holders, numbers, names, codes, split_names, seed=seed
    )
    return Shares(splits, partition, labelled)


def _parted(
    clients: ClientsConfig,
    settled: Partition | None,
    numbers: NDArray[np.int64],
    names: Sequence[str],
    codes: Sequence[str],
    splits: Sequence[str],
    *,
    seed: int,
) -> Partition:
    """Who holds each picture: as settled, divided where `count` asks for it, or drawn by chance."""
    count, alpha = clients.count, clients.alpha
    if count is None:
        if settled is None:
            raise PartitionError(f"clients by {clients.by} needs `count`")
        return settled
    if settled is not None:
        return divide(settled, count, numbers, names, codes, splits, seed=seed)
    if alpha is None:
        return iid(count, numbers, names, splits, seed=seed)
    return dirichlet(count, alpha, numbers, names, codes, splits, seed=seed)


def _settled(
    config: DataConfig,
    pictures: Sequence[Picture],
    groups: Sequence[str],
    grouping: Grouping,
    sources: Sequence[str],
) -> Partition | None:
    """Who holds each picture where the manifests say so; None where it is drawn by chance."""
    clients = config.clients
    if clients.by == "subgroup":
        return by_name(groups, grouping.names)
    if clients.by == "manifest":
        return by_name([picture.source for picture in pictures], sources)
    if clients.column is not None:
        return by_value([picture.row.value(clients.column) for picture in pictures], column=clients.column)
    return None
