"""Client state: what a client keeps between rounds, and the store that holds it.

Momentum encoders, feature banks, class tokens and optimizers never travel: they stay with their client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class State:
    """The state that one client keeps after one round of one stage.

    Attributes:
        tensors: named tensors, any shape.
        scalars: named numbers.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)


class StateStore(Protocol):
    """Keeps the states of clients, so that a resumed run goes on with exactly what it had."""

    def load(self, client: str, stage: str, round: int) -> State | None:
        """The newest state of `client` in `stage` from a round before `round`; None when there is none."""

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Keep `state` as what `client` had after `round`; whatever is of a later round is forgotten."""
