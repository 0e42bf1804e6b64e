"""The aggregator interface: reads the clients' numbers and says how to mix their tensors.

Scalars first, tensors once: an aggregator never sees a tensor. It returns a `Mixture`, and the round loop
sums the tensors in one pass in client order, so that memory grows with the model and not with the cohort.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self

from training.config import FrozenConfig
from training.data.cells import CellClasses

ServerState = Mapping[str, float]

Need = Literal["received losses", "squared change"]
RECEIVED_LOSSES: Final = "received losses"
SQUARED_CHANGE: Final = "squared change"


@dataclass(frozen=True)
class Report:
    """The numbers that come with one client's update.

    Attributes:
        client: its id.
        num_examples: N_{c,s}, its training pictures by subgroup.
        losses: L_{c,s}, its mean training loss by subgroup over the last local epoch; a subgroup of which
            no picture was drawn in that epoch, or of which the client has fewer than `privacy.min_count`, is
            absent.
        received_losses: F_{c,s}, the mean cross-entropy by subgroup of the model that it received, before any
            training, over all its labelled training pictures; by cell for a rule that weighs cells; empty
            unless asked for.
        squared_change: ‖θ^t − θ_c‖² over the parameters that travel; None unless asked for.
    """

    client: str
    num_examples: Mapping[str, int]
    losses: Mapping[str, float]
    received_losses: Mapping[str, float] = field(default_factory=dict)
    squared_change: float | None = None

    @property
    def total(self) -> int:
        """N_c."""
        return sum(self.num_examples.values())


@dataclass(frozen=True)
class Mixture:
    """The next model as a weighted sum: θ ← Σ_c clients[c] θ_c + previous θ^t."""

    clients: Mapping[str, float]
    previous: float = 0.0


@dataclass(frozen=True)
class Circumstances:
    """What a rule may depend on and is settled before a stage's first round.

    Attributes:
        clients: who may train, in order.
        subgroups: of whose labelled pictures they train, `undeclared` among them if there are any.
        names_subgroups: whether the job names subgroups.
        learning_rate: η, the objective's base learning rate.
        cells: labelled training pictures by cell and client, for a rule that weighs cells.
        min_count: nothing is told of pictures of fewer patients.
    """

    clients: Sequence[str]
    subgroups: Sequence[str]
    names_subgroups: bool
    learning_rate: float
    cells: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    min_count: int = 1


class Aggregator(FrozenConfig, ABC):
    """A rule for combining the clients' models; what it remembers between rounds is a few numbers.

    Attributes:
        needs: what it reads of a report beside counts and training losses; clients compute only what is
            asked for. `received losses` need an objective whose every picture has a label.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()
    name: str

    @property
    def weighs_cells(self) -> CellClasses | None:
        """Where clients are to weigh their pictures by cell: what tells classes apart; else None."""
        return None

    def for_job(self, circumstances: Circumstances) -> Self:
        """The rule with what depends on the job filled in."""
        return self

    def initial_state(self) -> ServerState:
        """What the server remembers before the first round."""
        return {}

    def cell_weights(self, state: ServerState) -> Mapping[str, float]:
        """What a picture of each cell counts at the clients in the next round; it travels with the model."""
        return {}

    def facts(self, state: ServerState) -> Mapping[str, Any]:
        """JSON-able details for the summary, from what the server remembers after the last round."""
        return {}

    @abstractmethod
    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
        """The mixture for this round and what to remember for the next.

        Args:
            reports: of the clients that answered, in client order; at least one.
            state: what the last round returned.
        """
