"""A client's pictures as the encoder of an exported graph sees them: made once, for all requests about it.

Under every pattern of a case, and under every temperature, the encoder sees the same pictures. It arrives
once, what it makes of them stays at the client, and every further request brings what follows it alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.model import OUTPUTS, Outputs
from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import Client, ClientFeatures
from training.data.dataset import SPLITS, Examples, Split
from training.errors import DataError, MessageError
from training.messages import Broadcast, Update, reply
from training.models.classifier import ENCODER_BATCH
from training.models.export import EncoderPart, HeadPart, as_bytes
from training.progress import Watch, unwatched
from training.rounds.client.embed import ENCODER, features_digest, rows_of
from training.rounds.requests import EVALUATION_BATCH

FOLD = "fold-"  # before the number of a fold: the name of what follows the encoder in the model without it

SUBGROUPS = "subgroups"  # in the request's options, those of whose pictures features are needed


@dataclass(frozen=True)
class Judged:
    """A model as a client judges it: features of its pictures, and what follows from them.

    Attributes:
        head: what follows.
        features: of the pictures of a split.
        folds: what follows in the models that are trained without one fold each; empty without cross-fitting.
    """

    head: HeadPart
    features: ClientFeatures
    folds: tuple[HeadPart, ...] = ()

    def run(self, examples: Examples) -> Outputs:
        """The graph's outputs for all examples of the split; of one fold, those of the model without it."""
        head = self.head
        if self.folds and examples.folds is not None and len(examples):
            (fold,) = np.unique(examples.folds).tolist()
            head = self.folds[fold]
        return over_all(self.features.of(examples), head.run)


def over_all(examples: Examples, run: Callable[[Examples, NDArray[np.int64]], Outputs]) -> Outputs:
    """The outputs for all examples, of a graph that is run on those at some positions."""
    starts = range(0, len(examples), EVALUATION_BATCH)
    batches = [
        run(examples, np.arange(start, min(start + EVALUATION_BATCH, len(examples)))) for start in starts
    ]
    return Outputs(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in OUTPUTS))


def make_graph_features(broadcast: Broadcast, client: Client) -> Update:
    """Make the features of a client's pictures with the encoder that arrived; the answer is empty.

    Training pictures are looked at whatever subgroup they are of, those that judge where it is asked for.
    """
    encoder = EncoderPart(as_bytes(broadcast.tensors), torch.get_num_threads())
    digest: str = broadcast.options[ENCODER]
    for number, split in enumerate(SPLITS):
        images = client.examples(split).images
        parts = client.by_subgroup(split)
        wanted = (
            parts if split == "train" else [name for name in parts if name in broadcast.options[SUBGROUPS]]
        )
        rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows_of(parts[name]) for name in wanted)]))
        of = features_digest(digest, images, rows, 0, AugmentConfig())
        place = place_of(broadcast.stage, digest)
        known = client.features.find(client.store, client.id, place, split)
        if known is None or known[0] != of:
            made = features_of(encoder, images, rows, partial(report_share, client.watch, number))
            client.features.keep(client.store, client.id, place, split, of, made)
    return reply(broadcast)


def report_share(watch: Watch, number: int, made: float) -> None:
    """Tell how much is done of all splits, the share `made` of this one, counting all alike."""
    watch((number + made) / len(SPLITS))


def features_of(
    encoder: EncoderPart,
    images: NDArray[np.uint8],
    rows: NDArray[np.int64],
    watch: Watch = unwatched,
) -> ClientFeatures:
    """The features of these rows; `watch` is called with the fraction computed so far."""
    made = np.zeros((len(rows), encoder.num_features), dtype=np.float32)
    for start in range(0, len(rows), ENCODER_BATCH):
        batch = slice(start, start + ENCODER_BATCH)
        made[batch] = encoder.features(images[rows[batch]])
        watch(min(start + ENCODER_BATCH, len(rows)) / len(rows))
    return ClientFeatures(made, rows)


def judged(broadcast: Broadcast, client: Client, encoder: str, split: Split) -> Judged:
    """What a request about a graph is answered with.

    Args:
        broadcast: carries what follows the encoder.
        client: whose pictures.
        encoder: the digest of the encoder.
        split: which of them.

    Raises:
        DataError: when the client was never given the encoder.
        MessageError: models without a fold, other than the job has, or of pictures that are in none.
    """
    folds = {name for name in broadcast.tensors if name.startswith(FOLD)}
    expected = [f"{FOLD}{number}" for number in range(client.crossfit or 0)]
    if folds and (split != "train" or folds != set(expected)):
        raise MessageError(
            f"{client.id} was sent {len(folds)} models without a fold to judge its {split} pictures by, and "
            f"its job has {client.crossfit or 0} (data.crossfit), of training pictures. Send it the same job"
        )
    known = client.features.find(client.store, client.id, place_of(broadcast.stage, encoder), split)
    if known is None:
        raise DataError(
            f"{client.id} has no features of its {split} pictures for {broadcast.stage}: they were never "
            "made, or its store was emptied; continue with --resume"
        )
    threads = torch.get_num_threads()
    return Judged(
        HeadPart(as_bytes(broadcast.tensors), threads),
        known[1],
        tuple(HeadPart(bytes(broadcast.tensors[name].numpy()), threads) for name in expected if folds),
    )


def place_of(stage: str, encoder: str) -> str:
    """Where features of an encoder are kept, of several in one stage."""
    return f"{stage}/{encoder[:16]}"
