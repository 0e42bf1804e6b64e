"""Pictures that nobody trains on: the clients of unseen sources, which are only asked."""

from collections.abc import Sequence

from clients.data.dealing import name_of
from clients.data.dividing import divide_into
from clients.data.errors import PartitionError
from clients.data.lot import Lot
from clients.data.manifest import Row
from clients.data.partitions import Partition, by_name
from clients.data.sources import Source
from clients.data.wording import listing


def refuse_seen(lot: Lot) -> None:
    """Refuse components that are in an unseen source and in another one.

    A picture of a lesion or a patient that is trained on is not unseen.

    Raises:
        PartitionError: names the first twenty.
    """
    sides: dict[int, dict[bool, tuple[str, Row]]] = {}
    for picture, number in zip(lot.pictures, lot.numbers.tolist(), strict=True):
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


def part_unseen(lot: Lot, sources: Sequence[Source], *, seed: int) -> Partition:
    """The clients of the unseen `sources`, which hold `lot`.

    Raises:
        PartitionError: a client without pictures.
    """
    settled = by_name([picture.source for picture in lot.pictures], [source.name for source in sources])
    return divide_into(
        settled,
        [source.count for source in sources],
        lot.numbers,
        lot.names,
        lot.codes,
        ["test"] * len(lot),
        seed=seed,
        advice="lower the `count` of its source, or check its pictures",
    )
