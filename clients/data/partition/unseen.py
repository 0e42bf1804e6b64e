"""Clients of unseen sources: never trained on, only evaluated."""

from collections.abc import Sequence

from clients.data.errors import PartitionError
from clients.data.manifests.manifest import Row
from clients.data.partition.assign import name_of
from clients.data.partition.divide_sites import divide_sites_into
from clients.data.partition.pool import Pool
from clients.data.partition.rules import Partition, by_name
from clients.data.sources import Source
from clients.data.wording import listing


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
    return divide_sites_into(
        declared,
        [source.count for source in sources],
        pool.component_ids,
        pool.names,
        pool.codes,
        ["test"] * len(pool),
        seed=seed,
        advice="lower the `count` of its source, or check its pictures",
    )
