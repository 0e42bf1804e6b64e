"""Who holds each picture, and in which split it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import name_of
from clients.data.errors import PartitionError
from clients.data.filtering import Picture
from clients.data.groups import components, kinship
from clients.data.partitions import Partition, by_name, by_value, dirichlet, iid
from clients.data.splits import assign_splits
from clients.data.subgroups import Grouping
from training.data import SPLITS, DataConfig


@dataclass(frozen=True)
class Shares:
    """What each picture is for.

    Attributes:
        splits: index into `training.data.SPLITS`, `(pictures,)`.
        partition: who holds it.
    """

    splits: NDArray[np.int64]
    partition: Partition


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
    """Splits and holders of all pictures.

    Splits are drawn over all clients' pictures, so that no lesion, patient or duplicate is in two splits even
    where two clients hold it. Files with the same bytes are duplicates, whatever their manifest says.

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
    if settled:
        return Shares(splits, settled)
    count, alpha = config.clients.count, config.clients.alpha
    if count is None:
        raise PartitionError(f"clients by {config.clients.by} needs `count`")
    names = [name_of(row) for row in rows]
    split_names = [SPLITS[split] for split in splits]
    if alpha is None:
        return Shares(splits, iid(count, numbers, names, split_names, seed=seed))
    return Shares(splits, dirichlet(count, alpha, numbers, names, codes, split_names, seed=seed))


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
