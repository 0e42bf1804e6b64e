"""What a client tells after patients withdrew from a run: numbers of pictures as before, and less besides.

Counts of answers tell how many pictures of each class they are of, and the census told how many there were.
So what it told of a split from which pictures are gone counts as told of the answers, too: the account holds
back what would differ from it by fewer patients than the job's minimum.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from training.algorithms.exchanges.base import PREFIX
from training.algorithms.objectives.dp_sgd import STEPS
from training.algorithms.objectives.tokenizers.codebook import CELLS, MOMENTS
from training.algorithms.release_store import ReleaseStore
from training.data.picture_list import LABEL, PATIENT, PICTURE, SPLIT, SUBGROUP
from training.data.told_before import ToldBefore
from training.errors import DataError, tell
from training.federation.client.release_ledger import ANSWERS, EMBEDDING_SUMS, kind_number
from training.federation.questions import COLLECT, FIT, OPEN
from training.federation.requested_scalars import CHANGE
from training.messages.message import Update

TRAINING = (FIT, OPEN, COLLECT)  # whose numbers of pictures are of those that are trained on
SUMS = (MOMENTS, CELLS)  # over training pictures, which no account is kept of


def as_told_before(update: Update, told: ToldBefore, least: int, *, all_pictures: bool = False) -> Update:
    """An answer with the numbers that were told before, and without what would tell how they changed.

    Of the scalars only the distance to what was received stays, which is as much as the weights tell.

    Args:
        update: as it would leave.
        told: what was told before.
        least: the fewest patients by whom losses may differ.
        all_pictures: whether the stage's objective trains on pictures without a label, too.

    Raises:
        DataError: the answer is one that cannot be had without telling of those who withdrew.
    """
    why = refused(update)
    if why:
        raise tell(
            DataError(
                f"patients of {update.client} withdrew from this run, and it does not answer `{update.ask}`: "
                f"the answer has {why}, and would tell of them. Dismiss it (--without), or start the run anew"
            )
        )
    if update.ask not in TRAINING:
        return update
    hidden = told.hidden_losses(least)
    counted = told.trained(update.num_examples, all_pictures=all_pictures or update.ask != FIT)
    if update.track in told.subgroups:  # a model of this subgroup alone
        counted = {name: n for name, n in counted.items() if name in update.num_examples}
    return replace(
        update,
        num_examples=counted,
        losses={name: loss for name, loss in update.losses.items() if name not in hidden},
        scalars={name: value for name, value in update.scalars.items() if name == CHANGE},
    )


def refused(update: Update) -> str:
    """What an answer has that would tell of those who withdrew; empty where nothing has."""
    if STEPS in update.scalars:
        return "a rate that tells how many pictures there are"
    if update.ask in SUMS or any(name.startswith(PREFIX) for name in update.tensors):
        return "sums or features of training pictures"
    return ""


def account_for_told(store: ReleaseStore, client: str, told: ToldBefore, least: int) -> None:
    """Enter the labelled pictures of splits from which some are gone among what was told of answers.

    Those of fewer than `least` patients of a subgroup, or of a class for sums of embeddings, are left out:
    of them nothing is answered, but where small subgroups are answered of together.
    """
    rows = told.told.rows
    gone = np.unique(rows[~np.isin(rows[:, PICTURE], told.now.rows[:, PICTURE]), SPLIT])
    for split in gone.tolist():
        labelled = rows[(rows[:, SPLIT] == split) & (rows[:, LABEL] >= 0)]
        by_subgroup, by_class = (
            [labelled[labelled[:, column] == value] for value in np.unique(labelled[:, column])]
            for column in (SUBGROUP, LABEL)
        )
        enter(store, client, ANSWERS, [part for part in by_subgroup if patients_of(part) >= least])
        enter(store, client, EMBEDDING_SUMS, [part for part in by_class if patients_of(part) >= least])
        if small_together(by_subgroup, least):
            enter(store, client, ANSWERS, [labelled])


def small_together(parts: Sequence[NDArray[np.int64]], least: int) -> bool:
    """Whether subgroups that are too small to be told of are told of together, as where a model is of all."""
    small = [part for part in parts if patients_of(part) < least]
    return bool(small) and patients_of(np.concatenate(small)) >= least


def patients_of(rows: NDArray[np.int64]) -> int:
    """How many patients some rows of a list are of."""
    return len(np.unique(rows[:, PATIENT]))


def enter(store: ReleaseStore, client: str, kind: str, parts: Sequence[NDArray[np.int64]]) -> None:
    """Enter a release of a kind, of disjoint rows of a list, where it is not there."""
    if not parts:
        return
    body = [
        np.column_stack([part[:, [PICTURE, PATIENT]], np.full(len(part), number, dtype=np.int64)])
        for number, part in enumerate(parts)
    ]
    release = np.concatenate([np.array([[0, 0, kind_number(kind)]], dtype=np.int64), *body])
    digest = hashlib.sha256(f"told {kind}".encode() + release.tobytes()).hexdigest()[:32]
    if not store.has(client, digest):
        store.add(client, digest, release)
