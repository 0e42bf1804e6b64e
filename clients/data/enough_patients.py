"""What a job's selectors keep or leave out of a hospital's pictures: enough patients, or none.

The author of a job chooses its selectors, and whatever is counted, trained or judged afterwards is of the
pictures that they select. So before anything is disclosed,

1. `refuse_narrow`: the pictures that `where`, the label maps and `train_only` keep, and those that they leave
   out, are each of `least` patients or more, or of none;
2. `withhold_few`: a class of a label map, a subgroup in a split, and the labelled and the unlabelled pictures
   of it, are each of `least` patients or more, or become none: pictures of a small subgroup keep training the
   global model and are in no subgroup, a few labels are left out, and what cannot be hidden among others is
   not used.

Both look at one job. Differences between two jobs (other seeds, units or label maps, or repaired pictures)
are checked by the account of censuses (`training.rounds.client.ledger`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.label_map import UNLABELLED
from clients.data.manifest import Row, components, linkage_keys
from clients.data.prepared import PictureTable
from clients.data.sources import Picture
from training.data.dataset import SPLITS

Mask = NDArray[np.bool_]


def refuse_narrow(
    rows: Sequence[Row], matched: Sequence[Picture], labelled: Sequence[Picture], least: int
) -> None:
    """Refuse selectors that keep or leave out fewer than `least` patients.

    Linked pictures count as one patient, as `clients.data.manifest.name_pictures` has them.

    Args:
        rows: all rows of the manifest.
        matched: the pictures that `where` keeps.
        labelled: those of them that the label maps keep.
        least: the fewest patients.

    Raises:
        ClientDataError: naming the setting and how many patients it keeps or leaves out.
    """
    people = components([linkage_keys(row) for row in rows]).tolist()
    owner = {id(row): person for row, person in zip(rows, people, strict=True)}

    def require(setting: str, of: Sequence[Row], kept: Sequence[Row]) -> None:
        inside = {id(row) for row in kept}
        parts = {"keeps": kept, "leaves out": [row for row in of if id(row) not in inside]}
        for verb, part in parts.items():
            patients = len({owner[id(row)] for row in part})
            if 0 < patients < least:
                raise ClientDataError(
                    f"{setting} {verb} {len(part)} pictures of {patients} patients, and a job may select "
                    f"{least} or more, or none (privacy.min_count). Remove the setting from the job, or "
                    "those rows from the manifest"
                )

    kept = [picture.row for picture in matched]
    require("data.where", rows, kept)
    require("data.label_map", kept, [picture.row for picture in labelled])
    judged = [picture.row for picture in labelled if not picture.train_only]
    require("data.train_only", [picture.row for picture in labelled], judged)


def withhold_few(table: PictureTable, least: int, *, mapped: bool, unseen: bool) -> PictureTable:
    """The table of one client without what is of fewer than `least` patients.

    Args:
        table: the client's, with names.
        least: the fewest patients.
        mapped: whether a label map of the job makes the classes.
        unseen: whether the client takes no part in training: then its splits are one.

    Raises:
        ClientDataError: pictures to train on are of fewer patients.
    """
    assert table.names is not None, "entries of a hospital have names"
    patients = table.names[:, 1]
    labels, subgroups = table.labels.copy(), table.subgroups.copy()
    used = np.ones(len(labels), dtype=np.bool_)

    def few(chosen: Mask) -> bool:
        return 0 < len(np.unique(patients[chosen])) < least

    for number in np.unique(labels[labels >= 0]).tolist() if mapped else ():
        if few(labels == number):
            used &= labels != number
    parts = [np.ones_like(used)] if unseen else [table.splits == place for place in range(len(SPLITS))]
    for part in parts:
        for group in np.unique(subgroups[subgroups >= 0]).tolist():
            cell = used & part & (subgroups == group)
            if few(cell):
                subgroups[cell] = -1
        for group in (-1, *np.unique(subgroups[subgroups >= 0]).tolist()):
            cell = used & part & (subgroups == group)
            if few(cell):  # of no subgroup, and few
                used &= ~cell
            elif few(cell & (labels >= 0)):
                labels[cell] = UNLABELLED
            elif few(cell & (labels < 0)):
                used &= ~cell | (labels >= 0)
    train = table.splits == SPLITS.index("train")
    if train.any() and not unseen and not (train & used).any():
        raise ClientDataError(
            f"{int(train.sum())} pictures to train on are of {len(np.unique(patients[train]))} patients, and "
            f"no model is trained here for a coordinator on fewer than {least} (privacy.min_count)"
        )
    return replace(table, labels=labels, subgroups=subgroups).where(used)
