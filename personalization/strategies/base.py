"""The base classes of strategies, and the strategies that train the whole model or ask no hospital to train.

**none**: no training; every personal model is the global model.

v = w*: what every other strategy is compared with, and the way to calibrate one global model for each
subgroup by itself. There is no epoch but epoch 0, so that no hospital is asked to train; what is reported of
validation is the global model's.

**finetune**: the whole model learns on the subgroup's own pictures (Xu et al. 2023, section IV-B, "post-FL").

Departures: with several clients that hold a subgroup an epoch is a round of FedAvg among them; with one
client, as in the paper, it is local fine-tuning. "The post-FL stage has the same parameters as the in-FL
stage": the objective is the training stage's own unless the job gives another.

**shrink**: a tone's converged head, drawn towards the global one (ridge regression with another centre).

    min_{W, b}  (1 / n) Σ_c L_c(W, b) + (λ / 2) (‖W − W_global‖² + ‖b − b_global‖²)

over the n training examples of one subgroup (`training.rounds.server.head_fit`). λ is the one of a few
strengths, and of ∞, which is the global head, at which examples that a head has not seen are most likely:
with cross-fitting a head without fold k is drawn to the global head without fold k, and scores that fold.

Departures: `b` is drawn, too; a class that a tone has no example of would else never be named.
"""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from training.algorithms.exchanges import NoExchange
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import OBJECTIVES, Objective
from training.algorithms.sync import Sync, SyncAll
from training.algorithms.trainable import OverPart, Part, SyncPart
from training.config import FrozenConfig
from training.messages import Tensors
from training.models import Classifier


class Strategy(FrozenConfig, ABC):
    """How a personal model comes from the global one.

    Attributes:
        epochs: fine-tuning epochs; each is a round among the clients that train the model.
        takes_cases: whether it can train a model of cases.
    """

    takes_cases: ClassVar[bool] = False
    name: str
    epochs: int = Field(ge=1)

    @abstractmethod
    def inherit(self, objective: Objective | None) -> "Strategy":
        """The strategy completed with the objective of the training stage before it."""

    @abstractmethod
    def local_objective(self) -> Objective:
        """The objective that a client minimises in one epoch."""

    @abstractmethod
    def sync(self) -> Sync:
        """The sync between the clients that train the model: what is sent."""

    def network(self, model: Classifier, seed: int) -> Classifier:
        """The network that trains, in which `model`'s tensors keep their names.

        Args:
            model: the job's, left unchanged.
            seed: for the initial weights that the job's model does not have.
        """
        return model

    def local_model(self, local_model: LocalModel) -> LocalModel:
        """A client's local model of that network."""
        return local_model

    def given(self, model: Classifier, start: Tensors) -> Tensors:
        """The tensors sent once to every client with the model; `start` is the global model's state."""
        return {}

    def merged(self, weights: Tensors) -> Tensors:
        """The state of the job's plain model, from that of the network that trained."""
        return weights


class WithoutEpochs(Strategy):
    """A strategy that asks no hospital to train."""

    takes_cases: ClassVar[bool] = True
    epochs: Literal[0] = 0

    def inherit(self, objective: Objective | None) -> Self:
        """Nothing is taken over."""
        return self

    def local_objective(self) -> Objective:
        """No client is asked to train."""
        raise AssertionError(f"strategy {self.name} has no epochs")

    def sync(self) -> Sync:
        """The model travels to be evaluated."""
        return SyncAll()


class Training(Strategy):
    """A strategy that trains, by the training stage's objective or another.

    Attributes:
        objective: what to minimise; null takes the training stage's.
    """

    objective: Annotated[Objective, OBJECTIVES] | None = None

    def inherit(self, objective: Objective | None) -> Self:
        """Takes the training stage's objective, one epoch at a time, where the job gives none.

        Raises:
            ValueError: when there is none, or one that learns no classes or needs an exchange.
        """
        chosen = self.objective or objective
        if chosen is None:
            raise ValueError("no training stage comes before; give strategy.objective")
        if chosen.self_supervised:
            raise ValueError(f"{chosen.name} learns no classes; fine-tune with supervised")
        chosen.fit_with(NoExchange())
        return self.model_copy(update={"objective": chosen.model_copy(update={"epochs": 1})})

    @property
    def epoch(self) -> Objective:
        """The given or inherited objective, of one epoch."""
        assert self.objective is not None, "a job fills this in when it is read"
        return self.objective


class PartStrategy(Training, Part):
    """Only what `moves` names learns, and only that travels."""

    def local_objective(self) -> Objective:
        """The given or inherited objective, over the part."""
        return OverPart.of(self.epoch, part=self)

    def sync(self) -> Sync:
        """The part travels."""
        return SyncPart(part=self)


class NoTraining(WithoutEpochs):
    """Nothing moves."""

    name: Literal["none"] = "none"


class FineTune(Training):
    """All weights move."""

    takes_cases: ClassVar[bool] = True
    name: Literal["finetune"] = "finetune"

    def local_objective(self) -> Objective:
        """The given or inherited objective."""
        return self.epoch

    def sync(self) -> Sync:
        """Everything travels."""
        return SyncAll()


STRENGTHS = (1.0, 3.0, 10.0, 30.0)
EVALUATIONS = 60  # of one head's gradient, at most


class Shrink(WithoutEpochs):
    """Heads of subgroups that are fitted to convergence, at each λ of `STRENGTHS`."""

    name: Literal["shrink"] = "shrink"
