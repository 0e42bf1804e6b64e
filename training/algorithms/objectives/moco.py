"""MoCo: a picture's two views agree, against a bank of momentum features (He et al. 2020; Wu et al. 2022).

For q the feature of the first view from the network that learns, k⁺ that of the second from the momentum
network, both scaled to length 1, Q_CL the negatives and τ the temperature, the loss of a picture is (Wu et
al., Eq. 6)

    ℓ = − log( e^{q·k⁺/τ} / (e^{q·k⁺/τ} + Σ_{n ∈ Q_CL} e^{q·n/τ}) )

and the batch's loss is the mean. A client keeps Q_l, the last K momentum features of its pictures; it begins
with those of the unchanged pictures. After each batch of B pictures, q_l their features k⁺:

- Without an exchange Q_CL is Q_l, into which q_l goes. With fedavg this is FedMoCo, "w/o FE" in Fig. 6.
- With the exchange `features`, Q_r are the others' features (Eq. 2). Q_CL starts as Q_l, and q_l and B
  features q_r drawn from Q_r go into it (Eqs. 3 and 4), in an order that is drawn: "FE".
- As before without `local_negatives`, Q_CL starts as Q_r, and q_r alone goes into it (Eq. 5): "FE+Neg", the
  paper's FedCLF.

The oldest features leave Q_CL for the new ones, so that its size is the same through a round. Q_l goes to
the exchange. The head is MoCo v2's (Chen et al. 2020).

Departures: features of the query's own picture are left out of its Q_CL. Where K is far below the pictures
of a client, as the authors have it, there are hardly any; a bank as large as the client holds one of nearly
every query, which the loss would push from itself. For one batch a feature of Q_r is drawn at most once,
where Eq. 3 leaves that open. Batch norm is not shuffled between devices, since a client has one: with few
pictures in a batch its statistics may tell which key belongs to which query.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.exchanges.base import Exchange, Shared
from training.algorithms.exchanges.features import FEATURES, SharedFeatures
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import in_batches
from training.algorithms.objectives.momentum import MomentumStart, MomentumTask, project, projection_head
from training.algorithms.objectives.simclr import VIEWS
from training.errors import DataError
from training.messages import Tensors
from training.models import Classifier
from training.models.cases import Network, projection
from training.models.classifier import to_model_input

PICTURES = "pictures"  # of which the kept features are
ELSEWHERE = -1  # not a position of any picture


class FeatureQueue:
    """The newest features, at most so many, and which picture each is of.

    Attributes:
        features: `(features, width)`, the oldest first.
        pictures: `(features,)` int64, positions in the client's examples; `ELSEWHERE` for none of them.
    """

    def __init__(self, features: Tensor, pictures: Tensor, capacity: int) -> None:
        """Begin with `features` `(features, width)`, the oldest first, of which the newest `capacity` fit."""
        self._capacity = capacity
        self.features, self.pictures = features[-capacity:], pictures[-capacity:]

    def push(self, latest: Tensor, pictures: Tensor) -> None:
        """Put `latest` `(features, width)` of `pictures` in; the oldest go where there is no room."""
        # New tensors each time: a gradient may still be wanted through what was there before.
        self.features = torch.cat([self.features, latest])[-self._capacity :]
        self.pictures = torch.cat([self.pictures, pictures])[-self._capacity :]


class MoCo(Objective):
    """Contrast against a bank of momentum features.

    Attributes:
        temperature: τ.
        momentum: m, how much of itself the momentum network keeps at each step.
        queue: K; the bank of a client with fewer pictures holds one feature of each.
        features: the width of q and k.
        hidden: the width of the head's hidden layer; by default that of the encoder's features.
        head_norm: batch norm after both layers of the head, as in MoCo v3. MoCo v2 has none. The features of
            an encoder that has learned little all lie close together. Q_r is a round old, so that a client
            can tell its keys from it by how far the encoder moved, whatever the pictures show; then all its
            features end in one place. Batch norm takes away what a whole batch has in common.
        momentum_encoder: whether the momentum network starts each round as the received network (`reset`) or
            goes on where the client's was (`keep`).
        local_negatives: whether the client's own features are among the negatives; without them the exchange
            must be `features`.
    """

    self_supervised = True
    shares: ClassVar[frozenset[Shared]] = frozenset({"features"})
    name: Literal["moco"] = "moco"
    augment: AugmentConfig = VIEWS
    temperature: float = Field(0.2, gt=0)
    momentum: float = Field(0.999, ge=0, lt=1)
    queue: int = Field(4096, ge=1)
    features: int = Field(128, ge=1)
    hidden: int | None = Field(None, ge=1)
    head_norm: bool = False
    momentum_encoder: MomentumStart = "reset"
    local_negatives: bool = True

    def fit_with(self, exchange: Exchange) -> None:
        """Refuse to leave out local negatives where no others arrive."""
        if not self.local_negatives and not isinstance(exchange, SharedFeatures):
            raise ValueError(
                f"moco with local_negatives false has no negatives with exchange {exchange.name}; "
                "set `exchange: {name: features}`, or local_negatives true"
            )

    def heads(self, model: Classifier) -> nn.Module:
        """The projection head."""
        width = model.num_features
        widths = (width, self.hidden or width, self.features)
        head = projection_head(*widths, norm_last=True) if self.head_norm else projection(*widths)
        return nn.ModuleDict({"projector": head})

    def open(self, model: Classifier, work: LocalRound) -> Tensors:
        """Features of the client's pictures, at most K; momentum network and network are the same here."""
        assert isinstance(model, Network)
        return {FEATURES: encode_all(self, model, work)[0].cpu()}

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round.

        Raises:
            DataError: when the exchange brings no features, or the client has no two pictures.
        """
        assert isinstance(model, Network)
        return MoCoTask(self, model, work)


class MoCoTask(MomentumTask):
    """One client's round of MoCo."""

    def __init__(self, config: MoCo, model: Network, work: LocalRound) -> None:
        super().__init__(config, model, work, config.momentum, config.momentum_encoder)
        self._config = config
        capacity = min(config.queue, len(work.examples))
        self._local = FeatureQueue(*self._first_features(), capacity)
        self._remote = received_features(work) if FEATURES in work.received else None
        if self._remote is None:
            self._negatives = self._local
        elif config.local_negatives:
            self._negatives = FeatureQueue(self._local.features, self._local.pictures, capacity)
        else:
            self._negatives = FeatureQueue(self._remote, elsewhere(self._remote), len(self._remote))
        self._draws = work.torch_generator("remote features")

    def _first_features(self) -> tuple[Tensor, Tensor]:
        """Q_l as the client kept it, or of its pictures as they are; and of which picture each is."""
        kept = self._work.kept
        if FEATURES not in kept:
            return encode_all(self._config, self._momentum.network, self._work)
        features = kept[FEATURES].to(self._work.device)
        return features, kept[PICTURES].to(self._work.device)

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 6, the mean over the batch."""
        first, second = batch.images.chunk(2)
        query = encode(self._model, first)
        self._shown = torch.from_numpy(batch.positions).to(query.device)
        with torch.no_grad():
            self._keys = encode(self._momentum.network, second)
        negatives = self._negatives
        own = self._shown[:, None] == negatives.pictures
        losses = info_nce(query, self._keys, negatives.features, self._config.temperature, own)
        self._losses.add(batch.positions, losses)
        return losses.mean()

    def after_step(self) -> None:
        """The momentum network follows; the banks take in what is new."""
        super().after_step()
        self._local.push(self._keys, self._shown)
        if self._remote is not None:
            self._negatives.push(*self._latest(self._remote))

    def _latest(self, remote: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 4, or Eq. 5 without local negatives; as many features of Q_r as there are, if they are few."""
        drawn = torch.randperm(len(remote), generator=self._draws)[: len(self._keys)].to(remote.device)
        others = remote[drawn]
        if not self._config.local_negatives:
            return others, elsewhere(others)
        both, pictures = torch.cat([self._keys, others]), torch.cat([self._shown, elsewhere(others)])
        order = torch.randperm(len(both), generator=self._draws).to(both.device)
        return both[order], pictures[order]

    def outgoing(self) -> Tensors:
        """Q_l, where there is an exchange for it."""
        return {} if self._remote is None else {FEATURES: self._local.features.cpu()}

    def keep(self) -> Tensors:
        """Q_l with its pictures, and the momentum network where it is kept."""
        pictures = {PICTURES: self._local.pictures.cpu()}
        return {FEATURES: self._local.features.cpu(), **pictures, **super().keep()}


def received_features(work: LocalRound) -> Tensor:
    """Q_r `(features, width)` on the client's device.

    Raises:
        DataError: when there are none.
    """
    remote = work.received[FEATURES].to(work.device)
    if not len(remote):
        raise DataError(
            f"{work.client} received no features from others in round {work.round}: no other client trains "
            "here. Bring a second client, or leave out the exchange"
        )
    return remote


def elsewhere(features: Tensor) -> Tensor:
    """`ELSEWHERE` for each feature `(features,)`: of no picture of the client, or of an unknown one."""
    return torch.full((len(features),), ELSEWHERE, device=features.device)


def encode(network: Network, images: Tensor) -> Tensor:
    """Features `(batch, width)` of length 1 of pictures `(batch, 3, height, width)`."""
    return F.normalize(project(network, images), dim=1)


@torch.no_grad()
def encode_all(config: MoCo, network: Network, work: LocalRound) -> tuple[Tensor, Tensor]:
    """Features `(features, width)` of the client's pictures as they are, at most K, in a drawn order.

    With them of which picture each is, `(features,)`.

    The network is in training mode, as where keys are made: before the first round its statistics are of
    nothing yet.

    Raises:
        DataError: when there are fewer than two pictures.
    """
    if len(work.examples) < 2:
        raise DataError(
            f"{work.client} has fewer than two pictures to train on with moco; "
            "give it more, or leave it out of the job"
        )
    order = work.numpy_generator("first features").permutation(len(work.examples))[: max(config.queue, 2)]
    batches = [
        encode(network, to_model_input(work.examples.batch(positions), work.device))
        for positions in in_batches(order, config.batch_size)
    ]
    return torch.cat(batches)[: config.queue], torch.from_numpy(order[: config.queue]).to(work.device)


def info_nce(
    query: Tensor, keys: Tensor, negatives: Tensor, temperature: float, left_out: Tensor | None = None
) -> Tensor:
    """Eq. 6 for each picture `(batch,)`; all features are of length 1.

    Args:
        query: q `(batch, width)`.
        keys: k⁺ `(batch, width)`.
        negatives: Q_CL `(features, width)`.
        temperature: τ.
        left_out: which of the negatives are none for which picture, `(batch, features)`; by default all are.
    """
    positive = (query * keys).sum(dim=1, keepdim=True)
    against = query @ negatives.T
    if left_out is not None:
        against = against.masked_fill(left_out, -torch.inf)
    logits = torch.cat([positive, against], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros_like(logits[:, 0], dtype=torch.long), reduction="none")
