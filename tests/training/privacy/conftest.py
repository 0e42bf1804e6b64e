"""Clients without pictures, whose every message is written down, and which leave when they are told to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from training.algorithms.client import Client, State
from training.errors import TrainingError
from training.messages import Answer, Broadcast, Failure, Update
from training.privacy.secagg.client import answer, withhold
from training.privacy.secagg.sums import MaskedSum, sum_masked_updates
from training.privacy.settings import SecureAggregationConfig


class MemoryStore:
    """Implements `training.algorithms.client.StateStore`, as the client store does on disk."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], dict[int, State]] = {}

    def load(self, client: str, stage: str, round: int) -> State | None:
        rounds = {n: state for n, state in self.kept.get((client, stage), {}).items() if n < round}
        return rounds[max(rounds)] if rounds else None

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        before = {n: kept for n, kept in self.kept.get((client, stage), {}).items() if n < round}
        self.kept[client, stage] = dict(sorted({**before, round: state}.items())[-2:])


def bare_client(name: str, store: MemoryStore) -> Client:
    """A client of which only the name and the store matter."""
    return Client(name, 0, 1, None, store, None)  # type: ignore[arg-type]


@dataclass
class Federation:
    """Clients that withhold tensors and answer the requests of a secure sum.

    Attributes:
        values: what each client holds.
        config: the job's.
        leaves: at which request a client leaves for good.
        seen: every message that reached the coordinator.
        tamper: changes a request on its way.
    """

    values: Mapping[str, Mapping[str, torch.Tensor]]
    config: SecureAggregationConfig
    leaves: Mapping[str, str] = field(default_factory=dict)
    seen: list[Update] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    tamper: Callable[[Broadcast], Broadcast] = lambda broadcast: broadcast
    gone: set[str] = field(default_factory=set)

    def ask(self, broadcasts: Sequence[Broadcast]) -> list[Answer]:
        return [self._answer(self.tamper(broadcast)) for broadcast in broadcasts]

    def _answer(self, broadcast: Broadcast) -> Answer:
        name = broadcast.client
        if self.leaves.get(name) == broadcast.ask:
            self.gone.add(name)
        if name in self.gone:
            return Failure(name, broadcast.track, "no heartbeat")
        try:
            update = answer(broadcast, bare_client(name, self.store), self.config)
        except TrainingError as error:
            return Failure(name, broadcast.track, str(error))
        self.seen.append(update)
        return update

    def withheld(self, round_: int = 1) -> list[Update]:
        """The clients' answers to `fit`, keys in place of tensors."""
        updates = []
        for name, tensors in self.values.items():
            update = Update(name, "0-federate", round_, "fit", tensors=tensors)
            updates.append(withhold(update, bare_client(name, self.store)))
        self.seen += updates
        return updates

    def sum(self, round_: int = 1, **arguments: object) -> MaskedSum:
        return sum_masked_updates(self.ask, self.withheld(round_), self.config, **arguments)  # type: ignore[arg-type]


@pytest.fixture
def federation() -> Callable[..., Federation]:
    """`federation(5, fewest=3)`: clients c0, c1, … with floating-point and whole tensors of their own."""

    def build(
        count: int, *, leaves: Mapping[str, str] | None = None, size: int = 40, **config: object
    ) -> Federation:
        values = {}
        for number in range(count):
            random = torch.Generator().manual_seed(number)
            values[f"c{number}"] = {
                "weights": torch.randn(size, generator=random),
                "sums": torch.randn(3, 2, generator=random, dtype=torch.float64) * 1e4,
                "counts": torch.randint(0, 1000, (2, 5), generator=random, dtype=torch.int32),
            }
        return Federation(values, SecureAggregationConfig(**{"survivors": 0.5} | config), leaves or {})  # type: ignore[arg-type]

    return build
