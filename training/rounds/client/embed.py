"""Features: a client's pictures as a frozen encoder sees them, made once before the first round (`embed`).

Features stay at the client. What was made for the same encoder, pictures and views is there after a restart.
Of several encoders raw features are made first and once: they are projected when the projection arrives.

`moments` asks for sums for that projection: the raw features' number, sum and Gram matrices. They are over
all its training pictures, with labels and without, each group where it is of as many patients as the job's
minimum. What leaves of a class elsewhere (sums of embeddings in calibration, a gradient) and of all pictures
here would tell the others by subtraction, since features are linear in these: so all of them stand in one
account of releases. And sums asked for a second time are of the same pictures or of as many more.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from training.algorithms.augmentations import AugmentConfig, augment
from training.algorithms.client import Client, ClientFeatures, OfFeatures, weights_digest
from training.algorithms.local_model import LocalModel
from training.data.dataset import SERVER, SPLITS, Examples, Split
from training.errors import DataError, MessageError
from training.messages import Broadcast, Update, reply
from training.models.classifier import ENCODER_BATCH, to_model_input
from training.models.several_encoders import CENTRES, COMPONENTS, Encoders, triangle
from training.progress import Watch
from training.randomness import derive_seed
from training.rounds.client.ledger import EMBEDDING_SUMS, disclosable
from training.rounds.requests import EVALUATION_BATCH, GRAM, MASS, SUM

LOGGER = logging.getLogger("dermfed.features")
ENCODER = "encoder"  # in the request's options, the digest of the encoder's weights


def answer_embed(broadcast: Broadcast, client: Client, augmentation: AugmentConfig, views: int) -> Update:
    """Make the features of all of a client's pictures, where they are not there yet; the answer is empty.

    Args:
        broadcast: carries the encoder's weights, unless they are those that the job begins with.
        client: whose pictures.
        augmentation: of the views of training pictures after the first.
        views: how many of those each training picture has.

    Raises:
        DataError: when this site's encoder is another than the coordinator's.
    """
    local_model = client.local_model
    local_model.load(broadcast.tensors)
    encoder = encoder_digest(local_model)
    if encoder != broadcast.options[ENCODER]:
        raise DataError(
            f"{client.id} has other weights of the encoder than the coordinator ({encoder[:12]} here, "
            f"{broadcast.options[ENCODER][:12]} there); install the same weights as model.weights names"
        )
    rows_in = {split: np.unique(rows_of(client.examples(split))) for split in SPLITS}
    views_of_all = sum(
        len(rows) * (1 + (views if split == "train" else 0)) for split, rows in rows_in.items()
    )
    several = local_model.model.encoder if isinstance(local_model.model.encoder, Encoders) else None
    place = broadcast.stage if several is None else raw_place(broadcast.stage)
    before = 0  # views of the splits before
    for split, rows in rows_in.items():
        examples = client.examples(split)
        drawn = views if split == "train" else 0
        digest = features_digest(seen_by(local_model), examples.images, rows, drawn, augmentation)
        known = client.features.find(client.store, client.id, place, split)
        if known is None or known[0] != digest:
            seed = derive_seed(client.seed, broadcast.stage, client.id, "views")
            watch = partial(report_share, client.watch, before, views_of_all)
            made = make_features(local_model, examples.images, rows, drawn, augmentation, seed, watch)
            known = digest, made
            client.features.keep(client.store, client.id, place, split, *known)
            LOGGER.info(
                "%s: features of %d %s pictures, %d views each", client.id, len(rows), split, 1 + drawn
            )
        if several is not None and several.is_projected:
            made = project(several, known[1], local_model.device)
            of = hashlib.sha256(f"{encoder} {digest}".encode()).hexdigest()
            client.features.keep(client.store, client.id, broadcast.stage, split, of, made)
        before += len(rows) * (1 + drawn)
    return reply(broadcast)


def raw_place(stage: str) -> str:
    """Where raw features of several encoders are kept for a stage."""
    return f"{stage}-raw"


def project(several: Encoders, raw: ClientFeatures, device: torch.device) -> ClientFeatures:
    """Raw features, projected."""
    made = np.zeros((len(raw.features), several.num_features), dtype=np.float16)
    with torch.inference_mode():
        for start in range(0, len(made), EVALUATION_BATCH):
            batch = slice(start, start + EVALUATION_BATCH)
            shown = torch.from_numpy(raw.features[batch]).to(device).float()
            made[batch] = several.projected(shown).cpu().numpy()
    return ClientFeatures(made, raw.rows)


def seen_by(local_model: LocalModel) -> str:
    """What names how pictures become features: of several encoders, raw ones."""
    model = local_model.model
    if isinstance(model.encoder, Encoders):
        raw = encoder_digest(local_model, but=(CENTRES, COMPONENTS))
        return f"{raw} {model.encoder.views} {[each.layers for each in model.encoder.parts]}"
    return f"{encoder_digest(local_model)} {model.normalisation} {'flips' if model.flips else ''}"


def report_share(watch: Watch, before: int, total: int, made: int) -> None:
    """Report how much of all views is done, `made` of them after those `before`."""
    watch((before + made) / total)


def features_before(client: Client, stage: str) -> str:
    """The last stage up to this one of which a client has features of its pictures; this one without any."""
    place, _, _ = stage.partition("-")
    earlier = [f"{at}-federate" for at in range(int(place), -1, -1)]
    known = (
        key for key in earlier if client.features.find(client.store, client.id, key, "train") is not None
    )
    return next(known, stage)


def on_features(client: Client, stage: str) -> Client:
    """The client with features in place of its pictures, and the model behind the encoder.

    Raises:
        DataError: when it was never asked to make them.
    """
    return replace(with_features(client, stage), local_model=client.local_model.behind_encoder())


def with_features(client: Client, stage: str) -> Client:
    """The client with features in place of its pictures, and the model that made them.

    Raises:
        DataError: when it was never asked to make them.
    """
    kept: dict[Split, ClientFeatures] = {}
    for split in SPLITS:
        known = client.features.find(client.store, client.id, stage, split)
        if known is None:
            raise DataError(
                f"{client.id} has no features of its pictures for {stage}: they were never made, or its "
                "store was emptied; continue with --resume"
            )
        kept[split] = known[1]
    return replace(client, dataset=OfFeatures(client.dataset, kept))


def rows_of(examples: Examples) -> NDArray[np.int64]:
    """The rows of all pictures of some examples."""
    if examples.cases is None:
        return examples.rows
    return examples.cases.pictures[examples.cases.present]


def make_features(
    local_model: LocalModel,
    images: NDArray[np.uint8],
    rows: NDArray[np.int64],
    views: int,
    augmentation: AugmentConfig,
    seed: int,
    made_so_far: Callable[[int], None] = lambda views: None,
) -> ClientFeatures:
    """The features of these rows, each with so many augmented views after its own.

    `made_so_far` is called with the number of views made.
    """
    model = local_model.model.eval()
    raw = model.encoder if isinstance(model.encoder, Encoders) else None
    see, width = (model.features, model.num_features) if raw is None else (raw.raw, sum(raw.widths))
    random = torch.Generator().manual_seed(seed)
    made = np.zeros((len(rows), 1 + views, width), dtype=np.float16)
    with torch.inference_mode(), local_model.autocast():
        for start in range(0, len(rows), ENCODER_BATCH):
            place = slice(start, start + ENCODER_BATCH)
            pictures = to_model_input(images[rows[place]], local_model.device)
            for view in range(1 + views):
                shown = augment(pictures, augmentation, random) if view else pictures
                made[place, view] = see(shown).float().cpu().numpy()
            made_so_far(min(start + ENCODER_BATCH, len(rows)) * (1 + views))
    if not np.isfinite(made).all():
        raise DataError(
            "features of this encoder are not finite in half precision; choose another model.name, or train "
            "it on pictures (trainable: {name: all}) and leave probes out"
        )
    return ClientFeatures(made.reshape(-1, width), rows)


def encoder_digest(local_model: LocalModel, but: tuple[str, ...] = ()) -> str:
    """The digest of the weights in front of the head, but of those whose names begin so."""
    head = set(local_model.model.head_names)
    names = [name for name in local_model.names if name not in head and not (but and name.startswith(but))]
    return weights_digest(local_model.take(tuple(names)))


def features_digest(
    encoder: str, images: NDArray[np.uint8], rows: NDArray[np.int64], views: int, augmentation: AugmentConfig
) -> str:
    """The digest of what features are made of."""
    found = hashlib.sha256(f"{encoder} {views} {augmentation.model_dump_json() if views else ''}".encode())
    for row in rows:
        found.update(int(row).to_bytes(8, "big") + images[row].tobytes())
    return found.hexdigest()


def answer_moments(broadcast: Broadcast, client: Client) -> Update:
    """The number of pictures, and of each block the sum of raw features and the triangle of the Gram matrix.

    Raises:
        MessageError: the request chooses pictures or clients of its own, or the model has one encoder.
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
    sets = disclosable(client, EMBEDDING_SUMS, parts)
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *map(rows_of, sets.values())]))
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
