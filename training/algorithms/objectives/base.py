"""The objective interface: the settings of local training, and the loss of a batch.

Local training itself is the same for all (`training.rounds.client.fit`): epochs of batches, a
gradient step each. An objective prepares one client's round as a `LocalTask`, which draws the batches and
computes their loss.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import TypeVar

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import Client
from training.algorithms.exchanges.base import Exchange, Shared
from training.algorithms.local_model import OptimizerConfig, ScheduleConfig
from training.config import FrozenConfig
from training.data.cells import CellWeights
from training.data.dataset import Examples
from training.messages import Broadcast, Tensors, Update, unknown_request
from training.models import Classifier
from training.models.classifier import Inputs
from training.progress import Watch, unwatched
from training.randomness import derive_seed, generator


class Ask(Protocol):
    """Asks every client that trains one request, before the first round; returns their answers."""

    def __call__(
        self, request: str, tensors: Tensors, options: Mapping[str, Any] | None = None
    ) -> Sequence[Update]:
        """Ask `request`, with tensors and JSON-able settings."""


def no_copies(count: int) -> Sequence[Classifier]:
    """Stands in for `LocalRound.frozen_copies` where an objective needs no second model."""
    assert not count, "this round was prepared without a second model"
    return ()


@dataclass(frozen=True)
class LocalRound:
    """The inputs of one client's round: pictures, state and random draws.

    Attributes:
        client, stage, track, round, rounds: which round this is, and of how many.
        seed: the job's seed.
        examples: the client's training pictures.
        subgroups: the subgroups' names, in the order of `examples.subgroups`.
        received: what the exchange sent in addition to the weights.
        kept: what this objective kept at this client from its last round.
        device: where the model is.
        shared_state: what the objective prepared before the first round, the same for all clients.
        min_count: nothing is disclosed of a group of fewer pictures.
        frozen_copies: so many further models of the same shape, with whatever weights they held last; no
            gradient reaches them.
        steps: after so many batches the training ends, and nothing of it is sent; None for a whole one.
        image_size: to how many pixels batches are scaled down before the network sees them; None for as they
            are drawn.
        cell_weights: what a picture of each cell counts; None where all count alike.
        watch: receives the progress of the round.
    """

    client: str
    stage: str
    track: str
    round: int
    rounds: int
    seed: int
    examples: Examples
    subgroups: tuple[str, ...]
    received: Tensors
    kept: Tensors
    device: torch.device
    shared_state: Tensors = field(default_factory=dict)
    min_count: int = 1
    frozen_copies: Callable[[int], Sequence[Classifier]] = no_copies
    steps: int | None = None
    image_size: int | None = None
    cell_weights: CellWeights | None = None
    watch: Watch = unwatched

    def frozen_copy(self) -> Classifier:
        """One further model of the same shape."""
        return self.frozen_copies(1)[0]

    def numpy_generator(self, purpose: str) -> np.random.Generator:
        """Draws for `purpose`, the same for this client and round whenever it runs."""
        return generator(self.seed, self.stage, self.track, self.round, self.client, purpose)

    def torch_generator(self, purpose: str) -> torch.Generator:
        """As `numpy_generator`, for torch on the CPU."""
        seed = derive_seed(self.seed, self.stage, self.track, self.round, self.client, purpose)
        return torch.Generator().manual_seed(seed)


Shown = TypeVar("Shown", bound=Inputs, default=Tensor, covariant=True)


@dataclass(frozen=True)
class Batch(Generic[Shown]):
    """Pictures `(batch, 3, height, width)` in [0, 1], and positions `(batch,)` in the client's examples.

    An objective that shows a picture in several views has all first views first, then all second ones. One
    that takes cases may have those, or features, in place of pictures.
    """

    images: Shown
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


class LocalTask(Protocol):
    """The local training of one client's round under one objective: its batches and their loss."""

    def batches(self, epoch: int) -> Iterator[Batch[Any]]:
        """The batches of one local epoch (from 0)."""

    def loss(self, batch: Batch[Any]) -> Tensor:
        """The mean loss of a batch, a scalar that carries a gradient."""

    def after_step(self) -> None:
        """What follows a gradient step, e.g. an EMA."""

    def num_examples(self) -> Mapping[str, int]:
        """N_{c,s}: the pictures that this objective trains on, by subgroup."""

    def losses(self) -> Mapping[str, float]:
        """L_{c,s}: the mean loss by subgroup over the last local epoch."""

    def outgoing(self) -> Tensors:
        """What the exchange should carry back."""

    def keep(self) -> Tensors:
        """What stays at this client for its next round."""

    def scalars(self) -> Mapping[str, float]:
        """What is logged of the round in addition to the losses, by name."""


class Objective(FrozenConfig, ABC):
    """Settings that every objective shares.

    Attributes:
        epochs: local epochs a round.
        mu: the weight of FedProx's proximal term (μ/2) ‖θ − θ^t‖² (Li et al. 2020); 0 leaves it out.
        clip_norm: the largest allowed norm of a gradient; None leaves it alone.
        self_supervised: whether it needs no labels: such objectives belong into the stage `pretrain`.
        shares: what it gives an exchange and takes from it: features of pictures, relations of classes, or
            models of other clients.
        uses_unlabelled: whether pictures without a label teach it too, so that clients that have no others
            are asked.
        takes_cases: whether it can learn from cases of several pictures and facts.
        weighs_cells: whether a picture's loss counts as the `cell_weights` of a round say.
        least_loss: the least that its mean loss can be; a report of less is refused by the coordinator.
    """

    self_supervised: ClassVar[bool] = False
    shares: ClassVar[frozenset[Shared]] = frozenset()
    uses_unlabelled: ClassVar[bool] = False
    takes_cases: ClassVar[bool] = False
    weighs_cells: ClassVar[bool] = False
    least_loss: ClassVar[float] = 0.0
    name: str
    epochs: int = Field(1, ge=1)
    batch_size: int = Field(64, ge=1)
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    augment: AugmentConfig = AugmentConfig()
    mu: float = Field(0.0, ge=0)
    clip_norm: float | None = Field(None, gt=0)

    def heads(self, model: Classifier) -> nn.Module | None:
        """What this objective puts on the encoder while it trains, with fresh weights; None for nothing."""
        return None

    def fit_with(self, exchange: Exchange) -> None:
        """Refuse an exchange that does not bring what this objective takes.

        Raises:
            ValueError: saying which exchange this objective needs.
        """
        return

    def frozen(self, model: Classifier) -> frozenset[str]:
        """The names of the parameters that this objective does not train."""
        return frozenset()

    def require_model(self, model: Classifier) -> None:
        """Refuse a model that this objective cannot train.

        Raises:
            JobError: saying why, and which to use.
        """
        return

    def stepping(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[torch.optim.Optimizer]:
        """What takes the gradient steps while it lasts: the optimizer, or something around it."""
        return nullcontext(optimizer)

    def prepare(self, ask: Ask, seed: int) -> Tensors:
        """The shared state of all clients, made before round 1; the server may ask the clients for it.

        Args:
            ask: puts requests to the clients, which `answer` answers.
            seed: for what the server draws.
        """
        return {}

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's answer to one of the requests of `prepare`."""
        raise unknown_request(broadcast)

    def open(self, model: Classifier, work: LocalRound) -> Tensors:
        """What a client hands to the exchange before the first round, from the initial weights."""
        raise AssertionError(f"{self.name} hands nothing to an exchange")

    @abstractmethod
    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round on `model`, which holds the state the round starts from."""


class Around(Objective):
    """A wrapper of an objective, with its settings and, unless overridden, its answers.

    Attributes:
        inner: the other one.
    """

    inner: Objective

    @classmethod
    def of(cls, inner: Objective, **own: Any) -> Self:
        """Wrap `inner`, with what the member itself needs."""
        settings = {name: getattr(inner, name) for name in Objective.model_fields}
        return cls(**settings, inner=inner, **own)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """The parameters that the wrapped objective does not train."""
        return self.inner.frozen(model)

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Begin the wrapped objective's round."""
        return self.inner.begin(model, work)
