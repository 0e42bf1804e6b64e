"""What an aggregator is: it reads the clients' numbers and says how to mix their tensors.

Scalars first, tensors once: an aggregator never sees a tensor. It returns a `Mixture`, and the round loop
sums the tensors in one pass in client order, so that memory grows with the model and not with the cohort.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.config import FrozenConfig

ServerState = Mapping[str, float]


@dataclass(frozen=True)
class Report:
    """The numbers that come with one client's update.

    Attributes:
        client: its id.
        num_examples: N_{c,s}, its training pictures by subgroup.
        losses: L_{c,s}, its mean training loss by subgroup over the last local epoch; a subgroup of which
            no picture was drawn in that epoch is absent.
    """

    client: str
    num_examples: Mapping[str, int]
    losses: Mapping[str, float]

    @property
    def total(self) -> int:
        """N_c."""
        return sum(self.num_examples.values())


@dataclass(frozen=True)
class Mixture:
    """The next model as a weighted sum: θ ← Σ_c clients[c] θ_c + previous θ^t."""

    clients: Mapping[str, float]
    previous: float = 0.0


class Aggregator(FrozenConfig, ABC):
    """A rule for combining the clients' models; what it remembers between rounds is a few numbers."""

    name: str

    def for_job(self, *, names_subgroups: bool) -> "Aggregator":
        """The rule with what depends on the job filled in."""
        return self

    def initial_state(self) -> ServerState:
        """What the server remembers before the first round."""
        return {}

    @abstractmethod
    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
        """The mixture for this round and what to remember for the next.

        Args:
            reports: of the clients that answered, in client order; at least one.
            state: what the last round returned.
        """
