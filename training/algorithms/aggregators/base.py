"""The aggregator interface: read the clients' numbers, return the weights of their tensors.

Scalars first, tensors once: an aggregator never sees a tensor. It returns weights, and the round loop
sums the tensors in one pass in client order, so that memory grows with the model and not with the cohort.

The papers have one skin type per client and one loss per client. A real hospital holds every tone, so a
subgroup's loss is the sample-weighted mean over the clients that hold it,
L_s = Σ_c N_{c,s} L_{c,s} / Σ_c N_{c,s}, and subgroup weights w_s become client weights
w_c = Σ_s w_s N_{c,s} / Σ_i N_{i,s}. With one subgroup per client both are the papers' own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
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
class AggregationWeights:
    """The next model as a weighted sum: θ ← Σ_c clients[c] θ_c + previous θ^t."""

    clients: Mapping[str, float]
    previous: float = 0.0


@dataclass(frozen=True)
class JobContext:
    """What a rule may depend on and is settled before a stage's first round.

    Attributes:
        clients: who may train, in order.
        subgroups: of whose labelled pictures they train, `undeclared` among them if there are any.
        names_subgroups: whether the job names subgroups.
        learning_rate: η, the objective's base learning rate.
        cells: labelled training pictures by cell and client, for a rule that weighs cells.
        min_count: statistics of pictures of fewer patients are not reported.
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
        needs: what it reads of a report in addition to counts and training losses; clients compute only what
            is asked for. `received losses` need an objective whose every picture has a label.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()
    name: str

    @property
    def weighs_cells(self) -> CellClasses | None:
        """Where clients are to weigh their pictures by cell: what tells classes apart; else None."""
        return None

    def for_job(self, context: JobContext) -> Self:
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
    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
        """The mixture for this round and what to remember for the next.

        Args:
            reports: of the clients that answered, in client order; at least one.
            state: what the last round returned.
        """


Unit = Literal["client", "subgroup"]


@dataclass(frozen=True)
class Share:
    """What one client holds of one subgroup.

    Attributes:
        client: its id.
        n: N_{c,s}, how many pictures.
        loss: their loss, where it is known: of the received model for an aggregator that needs that one, else
            L_{c,s} of those drawn in training.
        squared_change: of the client's whole model; None where it was not requested.
    """

    client: str
    n: int
    loss: float | None
    squared_change: float | None = None


class ByUnit(Aggregator):
    """An aggregator whose formula is over units.

    Attributes:
        unit: what the formula is over. By default subgroups where the job names any, else clients.
    """

    unit: Unit | None = None

    def for_job(self, context: JobContext) -> Self:
        """The unit, fixed for all rounds; it does not depend on which clients answer in one of them."""
        unit = self.unit or ("subgroup" if context.names_subgroups else "client")
        return self.model_copy(update={"unit": unit})

    def shares(self, reports: Sequence[Report]) -> dict[str, list[Share]]:
        """Who holds what of each unit."""
        unit = self.unit or default_unit(reports)
        return shares_by_unit(reports, unit, received=RECEIVED_LOSSES in self.needs)


class UnitAggregator(ByUnit):
    """An aggregator whose formula gives one weight to each unit."""

    @abstractmethod
    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """One weight per unit, summing to 1, from the units' losses."""

    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
        """Weigh the units, then spread their weights over the clients that hold them."""
        shares = self.shares(reports)
        weights, state = self.unit_weights(losses_by_unit(shares), state)
        return AggregationWeights(spread(weights, shares)), state


def default_unit(reports: Sequence[Report]) -> Unit:
    """Subgroups where the reports hold at least two, else clients."""
    return "subgroup" if len({name for report in reports for name in report.num_examples}) > 1 else "client"


def shares_by_unit(
    reports: Sequence[Report], unit: Unit, *, received: bool = False
) -> dict[str, list[Share]]:
    """Who holds what of each unit, with the loss of training or of the received model.

    Units without pictures are absent.
    """
    shares: dict[str, list[Share]] = {}
    for report in reports:
        losses = report.received_losses if received else report.losses
        for subgroup, n in report.num_examples.items():
            if n > 0:
                share = Share(report.client, n, losses.get(subgroup), report.squared_change)
                shares.setdefault(report.client if unit == "client" else subgroup, []).append(share)
    return shares


def losses_by_unit(shares: Mapping[str, Sequence[Share]]) -> dict[str, float]:
    """L_s of every unit.

    A unit of which no picture was drawn this round has no loss; it takes the mean over all pictures, so that
    it neither gains nor loses weight by chance.
    """
    overall = mean_loss(share for held in shares.values() for share in held)
    means = {unit: mean_loss(held) for unit, held in shares.items()}
    return {unit: (overall or 0.0) if mean is None else mean for unit, mean in means.items()}


def mean_loss(shares: Iterable[Share]) -> float | None:
    """Σ N L / Σ N over the shares that have a loss; None when none has."""
    known = [(share.n, share.loss) for share in shares if share.loss is not None]
    return sum(n * loss for n, loss in known) / sum(n for n, _ in known) if known else None


def spread(weights: Mapping[str, float], shares: Mapping[str, Sequence[Share]]) -> dict[str, float]:
    """w_c = Σ_s w_s N_{c,s} / Σ_i N_{i,s}."""
    clients: dict[str, float] = {}
    for unit, held in shares.items():
        total = sum(share.n for share in held)
        for share in held:
            clients[share.client] = clients.get(share.client, 0.0) + weights[unit] * share.n / total
    return clients


def softmax(scores: Mapping[str, float]) -> dict[str, float]:
    """e^{x} / Σ e^{x}, shifted by the maximum so that no exponential overflows."""
    top = max(scores.values())
    raised = {name: exp(score - top) for name, score in scores.items()}
    total = sum(raised.values())
    return {name: value / total for name, value in raised.items()}
