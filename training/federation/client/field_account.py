"""The door that counts of the field go through: what was told before decides what may be told now.

Counts of the field grow from day to day. Two answers that differ by one outcome tell what became of one
patient. So of a version and a subgroup nothing is told below the job's minimum, and what is told is written
down; later counts are told where they differ from every earlier answer by as many outcomes as the minimum
asks for, or by none. Until then the last answer is given again.

Departures: answers stand for patients, who are not known here; whoever asks the service several times of one
lesion counts several times. Combinations of three releases and more are not looked at.
"""

import hashlib
import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.field_counts import FieldCell, FieldStratum
from training.algorithms.release_store import ReleaseStore
from training.federation.client.release_ledger import FIELD_COUNTS, kind_number

LOGGER = logging.getLogger("dermfed.releases")


@dataclass(frozen=True)
class ToldBefore:
    """Counts that were told.

    Attributes:
        number: in which turn.
        cell: the counts.
    """

    number: int
    cell: FieldCell


def tells(cell: FieldCell | None, least: int) -> bool:
    """Whether so many outcomes are known that anything may be told."""
    return cell is not None and cell.confirmed >= max(least, 1)


def admit_cell(store: ReleaseStore, client: str, cell: FieldCell, least: int) -> FieldCell:
    """The counts that are told: these, or those that were told last; new ones are written down.

    Args:
        store: what was told before.
        client: whose counts.
        cell: as they are now.
        least: the fewest outcomes by which two answers may differ.

    Raises:
        MessageError: the account cannot be kept.
    """
    if least <= 1:
        return cell
    earlier = [
        told
        for rows in store.all(client)
        if rows[0, 2] == kind_number(FIELD_COUNTS) and (told := _told(rows, cell)) is not None
    ]
    if any(told.cell == cell for told in earlier):
        return cell
    if all(_apart(told.cell, cell, least) for told in earlier):
        rows = _rows(cell, len(earlier))
        store.add(client, hashlib.sha256(rows.tobytes()).hexdigest()[:32], rows)
        return cell
    LOGGER.warning(
        "%s: counts of the field of %s are told as they were: since then fewer than %d outcomes have come "
        "(privacy.min_count)",
        *(client, cell.subgroup, least),
    )
    return max(earlier, key=lambda told: told.number).cell


def _apart(told: FieldCell, cell: FieldCell, least: int) -> bool:
    """Whether two answers differ by so many outcomes, and by no or by so many answers."""
    answers = abs(cell.answered - told.answered)
    return abs(cell.confirmed - told.confirmed) >= least and not 0 < answers < least


def _rows(cell: FieldCell, number: int) -> NDArray[np.int64]:
    """A release as it is written down, `(1 + 2 strata, 3)`."""
    head = [_name(cell.version), _name(cell.subgroup), kind_number(FIELD_COUNTS)]
    strata = [
        row
        for one in cell.strata
        for row in ([one.answered, one.confirmed, one.malignant], [one.in_set, int(one.flagged), number])
    ]
    return np.array([head, *strata], dtype=np.int64)


def _told(rows: NDArray[np.int64], cell: FieldCell) -> ToldBefore | None:
    """What was written down, if it is of the same version and subgroup."""
    if (rows[0, :2] != [_name(cell.version), _name(cell.subgroup)]).any():
        return None
    strata = tuple(
        FieldStratum(
            flagged=bool(second[1]),
            answered=int(first[0]),
            confirmed=int(first[1]),
            malignant=int(first[2]),
            in_set=int(second[0]),
        )
        for first, second in zip(rows[1::2], rows[2::2], strict=True)
    )
    return ToldBefore(int(rows[-1, 2]), cell.model_copy(update={"strata": strata}))


def _name(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
