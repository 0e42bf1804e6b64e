"""What a report is made of: plain records that a run has at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from personalization.abstention import AbstentionThreshold
from personalization.calibration import Temperature
from personalization.conformal import ConformalThreshold
from personalization.frontier import frontier, without_floor
from personalization.selection import Choice, Selection
from registry.bundle.counts import Block
from registry.bundle.labels import Label
from training.messages import GLOBAL


@dataclass(frozen=True)
class CensusCell:
    """How many pictures one client holds of one kind.

    Attributes:
        client: the client's id.
        subgroup: the subgroup's name, `UNDECLARED` where there is none.
        label: the class code.
        split: train, validation, calibration or test.
        n: pictures.
    """

    client: str
    subgroup: str
    label: str
    split: str
    n: int


@dataclass(frozen=True)
class ClientBytes:
    """What one client was sent and sent, in one round or in several.

    Attributes:
        down: bytes to the client.
        beside: those among them that an exchange added to the weights.
        up: bytes from the client.
    """

    down: int = 0
    beside: int = 0
    up: int = 0

    @property
    def weights(self) -> int:
        """Bytes to the client that every federated run sends."""
        return self.down - self.beside

    def __add__(self, other: "ClientBytes") -> "ClientBytes":
        return ClientBytes(self.down + other.down, self.beside + other.beside, self.up + other.up)


@dataclass(frozen=True)
class Round:
    """One round as `metrics.jsonl` tells it.

    Attributes:
        stage: the stage's name; rounds count from the start of their stage.
        round: the number of the round.
        asked: ids of the clients that were asked.
        answered: ids of those that answered.
        loss: mean loss, None where none was measured.
        metrics: figures over all pictures by name.
        by_subgroup: per subgroup, its figures by name (`loss`, `balanced_accuracy`, ...).
        bytes_up: bytes from clients to the coordinator.
        bytes_down: bytes from the coordinator to clients.
        seconds: wall-clock time.
        peers: per client of the global model that was given any, whose models it was given as peers.
        scalars: per client of the global model, what its objective tells of the round (`kept`).
        bytes_by_client: per client what it was sent and sent; empty where the run did not note it.
    """

    stage: str
    round: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    loss: float | None
    metrics: Mapping[str, float | None]
    by_subgroup: Mapping[str, Mapping[str, float | None]]
    bytes_up: int
    bytes_down: int
    seconds: float
    peers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scalars: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bytes_by_client: Mapping[str, ClientBytes] = field(default_factory=dict)

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> "Round":
        """A round from one parsed line of `metrics.jsonl`; keys that a report does not use are ignored."""
        of_global = (line.get("models") or {}).get(GLOBAL) or {}
        notes = of_global.get("exchange") or {}
        return cls(
            stage=line["stage"],
            round=line["round"],
            asked=tuple(line["asked"]),
            answered=tuple(line["answered"]),
            loss=line.get("loss"),
            metrics=line.get("metrics") or {},
            by_subgroup=line.get("by_subgroup") or {},
            bytes_up=line.get("bytes_up", 0),
            bytes_down=line.get("bytes_down", 0),
            seconds=line.get("seconds", 0.0),
            peers={client: tuple(note["peers"]) for client, note in notes.items() if note.get("peers")},
            scalars=of_global.get("scalars") or {},
            bytes_by_client={
                client: ClientBytes(told["down"], told.get("beside", 0), told["up"])
                for client, told in (line.get("bytes_by_client") or {}).items()
            },
        )


@dataclass(frozen=True)
class StageFacts:
    """What a stage told of itself.

    Attributes:
        stage: its name, as in the rounds and the counts.
        kind: what kind of stage it is: `federate`, `finetune`, ...
        facts: its `facts` in `summary.json`. Shown are `by_client`, `over_clients`, `by_community` and
            `by_class` (as `registry.bundle.metrics.over_clients` makes them), `similarity`, `unseen`, and of
            `models` the `novelty`.
    """

    stage: str
    kind: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class FineTuning:
    """How the personal models came about.

    Attributes:
        accuracies: per subgroup, validation accuracy by epoch; epoch 0 is the global model.
        pictures: per subgroup, the validation pictures behind those accuracies.
        selection: which epochs were chosen, and why.
        strategy: the name of the strategy that trained them; None where the run did not note it.
        per: what has a model of its own. With `client`, the names above are of clients.
    """

    accuracies: Mapping[str, Mapping[int, float]]
    pictures: Mapping[str, int]
    selection: Selection
    strategy: str | None = None
    per: Literal["subgroup", "client"] = "subgroup"

    @cached_property
    def frontier(self) -> tuple[Choice, ...]:
        """The best reachable accuracy by allowed spread, by the rule in force."""
        return frontier(self.accuracies, self.selection.config)

    @cached_property
    def frontier_without_floor(self) -> tuple[Choice, ...] | None:
        """The same without the floor; None where that is no other."""
        return without_floor(self.accuracies, self.selection.config)

    @property
    def all_global(self) -> Choice:
        """The global model for everybody."""
        return Choice(dict.fromkeys(self.accuracies, 0), dict(self.selection.global_accuracies))


@dataclass(frozen=True)
class CalibratedModel:
    """What calibration fixed for one model.

    Attributes:
        subgroup: the subgroup that the model answers for; `global` for the global model.
        temperature: what divides its logits.
        conformal: from which score on a class is in the prediction set.
        abstention: from which confidence on an answer is given.
    """

    subgroup: str
    temperature: Temperature
    conformal: ConformalThreshold
    abstention: AbstentionThreshold

    @property
    def reports_from(self) -> int:
        """The confidence bin from which on the service reports: with an empty set it never does."""
        return max(self.abstention.threshold_bin, self.conformal.threshold_bin)


@dataclass(frozen=True)
class ReportData:
    """All that one run's report shows.

    Attributes:
        summary: the run's `summary.json`; its `job`, `recipe`, `seed`, `digest`, `stages` and `versions`
            are shown, and of the last stage's test block the `differences` and `intersections`. Its other
            figures are not: those come from `counts`, with intervals.
        labels: the classes in the order of the model's outputs.
        counts: per stage in the order in which they ran, per subgroup, the counts of the test split. The
            last stage is the one whose models are released. `UNDECLARED` may be one of the subgroups.
        rounds: the rounds of all stages, in order.
        facts: what the stages told of themselves, in order.
        census: what the clients hold.
        fine_tuning: None where the job does not personalize.
        calibration: one entry per calibrated model; empty where the job does not calibrate.
        notes: sentences that the run wants read, such as how many broken pictures were left out.
    """

    summary: Mapping[str, Any]
    labels: Sequence[Label]
    counts: Mapping[str, Mapping[str, Block]]
    rounds: Sequence[Round] = ()
    facts: Sequence[StageFacts] = ()
    census: Sequence[CensusCell] = ()
    fine_tuning: FineTuning | None = None
    calibration: Sequence[CalibratedModel] = ()
    notes: Sequence[str] = ()

    @property
    def last_test(self) -> Mapping[str, Any]:
        """The test block of the last stage that has one in the summary; empty where none has."""
        blocks = [block for stage in self.summary.get("stages", ()) if (block := stage.get("test"))]
        return blocks[-1] if blocks else {}
