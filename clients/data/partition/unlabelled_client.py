"""One client that holds all unlabelled training pictures, as in Semi-FL (Yan et al. 2023, section V)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.partition.rules import NOBODY, Partition, refuse_empty
from training.data.dataset import UNLABELLED_CLIENT


def move_unlabelled(
    hospitals: Partition, splits: Sequence[str], codes: Sequence[str], labelled: NDArray[np.bool_]
) -> Partition:
    """The partition with unlabelled training pictures moved from the hospitals to a client of their own.

    Validation, calibration and test stay where they are.

    Args:
        hospitals: who holds what.
        splits: the split of each row.
        codes: the class of each row, empty where it never had one.
        labelled: whether a class that a row has is known `(rows,)`.

    Raises:
        PartitionError: there are no unlabelled training pictures, or a hospital is left with nothing to
            train on.
    """
    training = np.array([split == "train" for split in splits], dtype=bool) & (hospitals.holders != NOBODY)
    known = labelled & np.array([bool(code) for code in codes], dtype=bool)
    moved = training & ~known
    if not moved.any():
        raise PartitionError(
            f"the client {UNLABELLED_CLIENT} would have no pictures: all training pictures have labels; "
            f"lower `label_fraction`, name `labelled_clients`, or remove `unlabelled_at`"
        )
    stayed = Partition(hospitals.clients, np.where(moved, NOBODY, hospitals.holders))
    refuse_empty(
        stayed,
        training,
        advice=f"all of them are unlabelled and would be at {UNLABELLED_CLIENT}; leave `unlabelled_at` at "
        f"`clients`, or leave labels at each client",
    )
    return Partition(
        (*hospitals.clients, UNLABELLED_CLIENT), np.where(moved, len(hospitals.clients), hospitals.holders)
    )
