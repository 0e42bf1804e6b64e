"""Seeded, stratified assignment of whole components to splits or clients, whatever the order of rows."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clients.data.manifests.manifest import Row

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
