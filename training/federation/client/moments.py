"""A client's sums for the projection of several encoders: their raw features' number, sum and Gram matrices.

They are over all its training pictures, with labels and without, each group where it is of as many patients
as the job's minimum. What leaves of a class elsewhere (sums of embeddings in calibration, a gradient) and of
all pictures here would tell the others by subtraction, since features are linear in these: so all of them
stand in one account of releases. And sums asked for a second time are of the same pictures or of as many
more.
"""

import numpy as np
import torch

from training.algorithms.client import Client
from training.data.dataset import SERVER
from training.errors import DataError, MessageError
from training.federation.client.embed import raw_place, rows_of
from training.federation.client.release_ledger import EMBEDDING_SUMS, admit
from training.federation.questions import GRAM, MASS, SUM
from training.messages.message import Broadcast, Update, reply
from training.models.encoders.several import Encoders, triangle


def answer_moments(broadcast: Broadcast, client: Client) -> Update:
    """The number of pictures, and of each block the sum of raw features and the triangle of the Gram matrix.

    Raises:
        MessageError: the question chooses pictures or clients of its own, or the model has one encoder.
        DataError: the client was never asked for features, or has too few pictures for sums in the clear.
    """
    several = client.local_model.model.encoder
    if broadcast.options != {"split": "train"} or not isinstance(several, Encoders):
        raise MessageError(
            f"{client.id} was asked for sums of features with the options {dict(broadcast.options)}; they "
            "have to be {split: train}, by which all are over the same clients, of a model of several "
            "encoders. Install the same version there, and send it the same job"
        )
    known = client.features.find(client.store, client.id, raw_place(broadcast.stage), "train")
    if known is None:
        raise DataError(
            f"{client.id} has no features of its pictures for {broadcast.stage}: they were never made, or "
            "its store was emptied; continue with --resume"
        )
    train = client.examples("train")
    parts = {"labelled": train.where(train.labels >= 0), "unlabelled": train.where(train.labels < 0)}
    enough = {name: part for name, part in parts.items() if part.num_people >= max(client.min_count, 1)}
    told = admit(client.releases, client.id, EMBEDDING_SUMS, enough, client.min_count)
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *map(rows_of, told.values())]))
    if not client.masked and client.id != SERVER and 0 < len(rows) <= max(several.widths):
        raise DataError(
            f"{client.id} sends no sums of features in the clear: they would be of {len(rows)} pictures, and "
            f"of no more than {max(several.widths)} a matrix tells which pictures are among them. Set "
            "privacy.counts.masks or privacy.secure_aggregation, or name encoders with fewer features"
        )
    made = known[1]
    shown = made.features[np.searchsorted(made.rows, rows) * made.views]
    raw = torch.from_numpy(shown).double()
    tensors = {MASS: torch.tensor([float(len(rows))], dtype=torch.float64)}
    for number, block in enumerate(torch.split(raw, list(several.widths), dim=1)):
        tensors |= {f"{SUM}{number}": block.sum(dim=0), f"{GRAM}{number}": triangle(block.T @ block)}
    return reply(broadcast, tensors=tensors)
