"""Dealing whole components to splits or clients: by chance, in given shares, whatever the order of rows."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clients.data.manifest import Row

Stratum = tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """Pictures that stay together.

    Attributes:
        rows: their rows, ascending.
        name: what identifies it whatever the order of rows: the smallest of its rows' names.
        stratum: the stratum of most of its rows, the smallest where several tie.
    """

    rows: tuple[int, ...]
    name: str
    stratum: Stratum


def name_of(row: Row) -> str:
    """What identifies a row in any copy of its manifest: its lesion, else its patient, else its file."""
    if row.lesion_id:
        return f"lesion {row.lesion_id}"
    if row.patient_id:
        return f"patient {row.patient_id}"
    return f"picture {row.image.rpartition('/')[2]} {row.image}"


def gather(
    numbers: NDArray[np.int64], names: Sequence[str], strata: Sequence[Stratum], *, seed: int, purpose: str
) -> list[Component]:
    """The components, by stratum and within it in an order drawn from (`seed`, `purpose`, name).

    Args:
        numbers: the component of each row `(rows,)`.
        names: `name_of` each row.
        strata: the stratum of each row.
        seed: the job's seed.
        purpose: keeps the orders of splits and of partitions independent.
    """
    rows_of: dict[int, list[int]] = {}
    for row, number in enumerate(numbers.tolist()):
        rows_of.setdefault(number, []).append(row)

    def component(rows: list[int]) -> Component:
        counts = Counter(strata[row] for row in rows)
        stratum = min(counts, key=lambda stratum: (-counts[stratum], stratum))
        return Component(tuple(rows), min(names[row] for row in rows), stratum)

    def place(item: Component) -> tuple[Stratum, str, str]:
        drawn = hashlib.sha256(f"{seed}/{purpose}/{item.name}".encode()).hexdigest()
        return item.stratum, drawn, item.name

    return sorted(map(component, rows_of.values()), key=place)


def deal(
    sizes: Sequence[int], shares: ArrayLike, given: Sequence[int | None] | None = None
) -> NDArray[np.int64]:
    """Who gets each item, `(items,)`, so that every stretch of items is shared as `shares` asks.

    Item i goes to the receiver who lacks most: argmax_k shares_k S_i - dealt_k, where S_i is the size of the
    items up to and with i, and dealt_k what k has had of them. Ties go to the first receiver.

    Args:
        sizes: pictures in each item.
        shares: what each receiver should have, `(receivers,)`, summing to 1.
        given: for each item its receiver where that is settled, else None; settled items count as dealt.
    """
    wanted = np.asarray(shares, dtype=np.float64)
    dealt = np.zeros_like(wanted)
    receivers = np.empty(len(sizes), dtype=np.int64)
    total = 0
    for item, size in enumerate(sizes):
        total += size
        settled = given[item] if given is not None else None
        # Rounded, so that shares like 0.1, which no float holds exactly, tie where they should.
        missing = np.round(wanted * total - dealt, 9)
        receiver = int(np.argmax(missing)) if settled is None else settled
        dealt[receiver] += size
        receivers[item] = receiver
    return receivers
