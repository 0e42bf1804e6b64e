"""Whole components assigned to clients and to splits: seeded, stratified, whatever the order of rows.

Clients are by a column's values, by name, Dirichlet over classes, or IID. Splits are the same on every
machine. Components (`clients.data.manifest`) are laid out by client, subgroup and label, in an
order drawn from the seed, and assigned so that every stretch of that line is divided in the asked proportions
(`deal`). So each client gets these proportions, each subgroup within it, and each label within that as nearly
as whole lesions allow. The line starts afresh at each client: a hospital that sees its own manifest alone
draws the same splits as the coordinator who sees all.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clients.data.errors import PartitionError, SplitError
from clients.data.manifest import Row
from clients.data.output import listing
from clients.data.sources import Picture
from training.data.dataset import SPLITS
from training.data.settings import SplitConfig

Stratum = tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """Pictures that must stay together, such as those of one lesion.

    Attributes:
        rows: their rows, ascending.
        name: what identifies it whatever the order of rows: the smallest of its rows' names.
        stratum: the stratum of most of its rows, the smallest where several tie.
    """

    rows: tuple[int, ...]
    name: str
    stratum: Stratum


def name_of(row: Row) -> str:
    """The stable name of a row in any copy of its manifest: its lesion, else its patient, else its file."""
    if row.lesion_id:
        return f"lesion {row.lesion_id}"
    if row.patient_id:
        return f"patient {row.patient_id}"
    return f"picture {row.image.rpartition('/')[2]} {row.image}"


def ordered_components(
    component_ids: NDArray[np.int64],
    names: Sequence[str],
    strata: Sequence[Stratum],
    *,
    seed: int,
    purpose: str,
) -> list[Component]:
    """The components, by stratum and within it in an order drawn from (`seed`, `purpose`, name).

    Args:
        component_ids: the component of each row `(rows,)`.
        names: `name_of` each row.
        strata: the stratum of each row.
        seed: the job's seed.
        purpose: keeps the orders of splits and of partitions independent.
    """
    rows_of: dict[int, list[int]] = {}
    for row, number in enumerate(component_ids.tolist()):
        rows_of.setdefault(number, []).append(row)

    def component(rows: list[int]) -> Component:
        counts = Counter(strata[row] for row in rows)
        stratum = min(counts, key=lambda stratum: (-counts[stratum], stratum))
        return Component(tuple(rows), min(names[row] for row in rows), stratum)

    def place(item: Component) -> tuple[Stratum, str, str]:
        drawn = hashlib.sha256(f"{seed}/{purpose}/{item.name}".encode()).hexdigest()
        return item.stratum, drawn, item.name

    return sorted(map(component, rows_of.values()), key=place)


def assign(
    sizes: Sequence[int], proportions: ArrayLike, fixed: Sequence[int | None] | None = None
) -> NDArray[np.int64]:
    """The receiver of each item, `(items,)`; any prefix of the items is close to the asked proportions.

    Item i goes to the receiver who lacks most: argmax_k p_k S_i - a_k, where p_k is its proportion, S_i
    the size of the items up to and with i, and a_k what k has been assigned of them. Ties go to the first
    receiver.

    Args:
        sizes: pictures in each item.
        proportions: what each receiver should have, `(receivers,)`, summing to 1.
        fixed: for each item its receiver where that is given, else None; such items count as assigned.
    """
    wanted = np.asarray(proportions, dtype=np.float64)
    assigned = np.zeros_like(wanted)
    receivers = np.empty(len(sizes), dtype=np.int64)
    total = 0
    for item, size in enumerate(sizes):
        total += size
        receiver_given = fixed[item] if fixed is not None else None
        # Rounded, so that proportions like 0.1, which no float holds exactly, tie where they should.
        missing = np.round(wanted * total - assigned, 9)
        receiver = int(np.argmax(missing)) if receiver_given is None else receiver_given
        assigned[receiver] += size
        receivers[item] = receiver
    return receivers


def deal(
    items: Sequence[Component],
    proportions: Callable[[Stratum], ArrayLike],
    *,
    by: int | None = None,
    fixed: Callable[[Component], int | None] = lambda item: None,
) -> Iterator[tuple[Component, int]]:
    """Each item with its receiver; every stretch of one stratum, or of the first `by` words of it, afresh.

    Args:
        items: in order of their strata.
        proportions: what each receiver should have of a stretch, as of `assign`.
        by: how many words of a stratum make a stretch; by default all.
        fixed: the receiver of an item where that is given.
    """
    for stratum, line in groupby(items, key=lambda item: item.stratum[:by]):
        stretch = list(line)
        sizes = [len(item.rows) for item in stretch]
        receivers = assign(sizes, proportions(stratum), [fixed(item) for item in stretch])
        yield from zip(stretch, receivers.tolist(), strict=True)


NOBODY = -1


@dataclass(frozen=True)
class Rows:
    """What clients are drawn by; every attribute has one entry per row.

    Attributes:
        component_ids: the component of each row `(rows,)`.
        names: what identifies it.
        codes: its class, empty where it is unlabelled.
        splits: its split.
    """

    component_ids: NDArray[np.int64]
    names: Sequence[str]
    codes: Sequence[str]
    splits: Sequence[str]


@dataclass(frozen=True)
class Partition:
    """The client that holds each row.

    Attributes:
        clients: the clients' ids.
        holders: for each row an index into `clients`, or `NOBODY`, `(rows,)`.
    """

    clients: tuple[str, ...]
    holders: NDArray[np.int64]


def by_value(values: Sequence[str], *, column: str) -> Partition:
    """One client per value of a column, in sorted order.

    Raises:
        PartitionError: rows whose value is empty.
    """
    missing = sum(not value for value in values)
    if missing:
        raise PartitionError(
            f"{missing} of {len(values)} pictures have no {column}, so no client holds them; "
            f"fill the column, or leave them out with `where`"
        )
    return by_name(values, sorted(set(values)))


def by_name(values: Sequence[str], clients: Sequence[str]) -> Partition:
    """One client for each of `clients`, in that order; rows with another value belong to no client.

    Raises:
        PartitionError: a client without pictures.
    """
    index = {name: number for number, name in enumerate(clients)}
    partition = Partition(
        tuple(clients), np.array([index.get(value, NOBODY) for value in values], dtype=np.int64)
    )
    refuse_empty(partition, np.ones(len(values), dtype=bool), advice="leave it out, or check its pictures")
    return partition


def dirichlet(count: int, alpha: float, rows: Rows, *, seed: int) -> Partition:
    """`count` clients with label skew: p_j ~ Dir_N(alpha) for each class j (paper 004, section IV).

    Components of class j are assigned to the clients in the proportions p_j, the same p_j in every split, so
    that a client is tested on the mix that it trains on. Unlabelled rows are one more class.

    Args:
        count: N, the number of clients.
        alpha: the smaller, the more the clients differ.
        rows: the pictures.
        seed: the job's seed.

    Raises:
        PartitionError: a client without pictures to train on.
    """

    def proportions(stratum: Stratum) -> NDArray[np.float64]:
        label = stratum[1]
        key = hashlib.sha256(f"{seed}/dirichlet/{label}".encode()).digest()
        return np.random.default_rng(int.from_bytes(key)).dirichlet(np.full(count, alpha))

    strata = list(zip(rows.splits, rows.codes, strict=True))
    advice = "raise `alpha`, ask for fewer clients, or take another seed"
    return _drawn(count, rows, strata, proportions, seed, advice)


def iid(count: int, rows: Rows, *, seed: int) -> Partition:
    """`count` clients with equal random parts of every split; arguments as in `dirichlet`.

    Raises:
        PartitionError: a client without pictures to train on.
    """
    equal = np.full(count, 1 / count)
    return _drawn(
        count, rows, [(split,) for split in rows.splits], lambda _: equal, seed, "ask for fewer clients"
    )


def _drawn(
    count: int,
    rows: Rows,
    strata: Sequence[Stratum],
    proportions: Callable[[Stratum], NDArray[np.float64]],
    seed: int,
    advice: str,
) -> Partition:
    holders = np.empty(len(rows.names), dtype=np.int64)
    items = ordered_components(rows.component_ids, rows.names, strata, seed=seed, purpose="partition")
    for item, client in deal(items, proportions):
        holders[list(item.rows)] = client
    width = len(str(count - 1))
    partition = Partition(tuple(f"client-{number:0{width}d}" for number in range(count)), holders)
    refuse_empty(partition, training_rows(rows.splits), advice=advice)
    return partition


def training_rows(splits: Sequence[str]) -> NDArray[np.bool_]:
    """The rows to train on `(rows,)`, or all rows where splits are not drawn yet."""
    training = np.array([split == "train" for split in splits], dtype=bool)
    return training if training.any() else np.ones(len(splits), dtype=bool)


def refuse_empty(partition: Partition, counted: NDArray[np.bool_], *, advice: str) -> None:
    """Refuse a partition that gives a client none of the rows that are `counted` `(rows,)`.

    Raises:
        PartitionError: names the clients, and what to do about them.
    """
    held = Counter(partition.holders[counted].tolist())
    empty = [name for number, name in enumerate(partition.clients) if not held[number]]
    if empty:
        raise PartitionError(
            f"client {', '.join(empty)} of {len(partition.clients)} would have no pictures"
            f"{' to train on' if not counted.all() else ''}; {advice}"
        )


@dataclass(frozen=True)
class Pool:
    """Pictures to be partitioned; every attribute has one entry per picture.

    Attributes:
        pictures: the pictures.
        component_ids: their components `(pictures,)`.
        codes: their classes, empty where they are unlabelled.
        groups: their subgroups, empty where they are undeclared.
    """

    pictures: Sequence[Picture]
    component_ids: NDArray[np.int64]
    codes: Sequence[str]
    groups: Sequence[str]

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def rows(self) -> list[Row]:
        """The manifest rows."""
        return [picture.row for picture in self.pictures]

    @property
    def names(self) -> list[str]:
        """The stable name of each picture (`name_of`)."""
        return [name_of(picture.row) for picture in self.pictures]

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Which pictures no client trains on, `(pictures,)`."""
        return np.array([picture.unseen for picture in self.pictures], dtype=bool)

    @property
    def train_only(self) -> NDArray[np.bool_]:
        """Which pictures no model is evaluated on, `(pictures,)`."""
        return np.array([picture.train_only for picture in self.pictures], dtype=bool)

    def keep(self, keep: NDArray[np.bool_]) -> "Pool":
        """The pictures for which `keep` `(pictures,)` is true, in the same order."""
        kept = keep.nonzero()[0].tolist()
        return Pool(
            [self.pictures[place] for place in kept],
            self.component_ids[keep],
            [self.codes[place] for place in kept],
            [self.groups[place] for place in kept],
        )


def assign_splits(
    config: SplitConfig,
    rows: Sequence[Row],
    component_ids: NDArray[np.int64],
    strata: Sequence[Stratum],
    *,
    seed: int,
) -> NDArray[np.int64]:
    """The split of each row, `(rows,)`, as an index into `SPLITS`.

    A component with a row whose `split` is given goes there whole; the others fill up the proportions.

    Args:
        config: the proportions.
        rows: the pictures.
        component_ids: the component of each row `(rows,)`.
        strata: (client, subgroup, label) of each row.
        seed: the job's seed.

    Raises:
        SplitError: rows of one component were given different splits; the first twenty are named.
    """
    refuse_straddling(rows, component_ids)
    proportions = [getattr(config, name) for name in SPLITS]
    items = ordered_components(
        component_ids, [name_of(row) for row in rows], strata, seed=seed, purpose="split"
    )
    numbers: dict[str, int] = {name: number for number, name in enumerate(SPLITS)}
    splits = np.empty(len(rows), dtype=np.int64)
    for item, split in deal(
        items, lambda _: proportions, by=1, fixed=lambda item: numbers.get(fixed_split(item, rows))
    ):
        splits[list(item.rows)] = split
    return splits


def straddling(rows: Sequence[Row], component_ids: NDArray[np.int64]) -> list[str]:
    """A line for each component whose rows are given different splits: which pictures, and where."""
    placed: dict[int, dict[str, Row]] = {}
    for row, number in zip(rows, component_ids.tolist(), strict=True):
        if row.split:
            placed.setdefault(number, {}).setdefault(row.split, row)
    return [
        ", ".join(f"{name_of(row)} ({row.image}) is in {split}" for split, row in by_split.items())
        for by_split in placed.values()
        if len(by_split) > 1
    ]


def refuse_straddling(rows: Sequence[Row], component_ids: NDArray[np.int64]) -> None:
    """Refuse given splits that separate pictures of one component.

    Raises:
        SplitError: names the components.
    """
    problems = straddling(rows, component_ids)
    if problems:
        raise SplitError(
            f"{len(problems)} groups of pictures of one lesion, patient or duplicate are on both sides of a "
            f"split:\n{listing(problems)}\ngive each group one split, or leave the column empty"
        )


def fixed_split(item: Component, rows: Sequence[Row]) -> str:
    """The split that the manifest gives a component; empty where it gives none."""
    return next((rows[row].split for row in item.rows if rows[row].split), "")
