"""The data of a run's report: plain records of its rounds, stages, census and calibration."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import TriageFit
from personalization.calibration.working_point import WorkingPoint
from personalization.selection.frontier import frontier, without_floor
from personalization.selection.select import ChosenEpochs, Selection
from registry.bundle.conclusions import Conclusions
from registry.bundle.counts.counting import Block
from registry.bundle.labels import ClaimedTone, Label
from training.messages.message import GLOBAL

Communities = Mapping[str, Sequence[str]]
"""Names of groups of clients, and who is in them."""


@dataclass(frozen=True)
class CensusCell:
    """The number of pictures of one kind at one client.

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
    """Bytes to and from one client, in one round or in several.

    Attributes:
        down: bytes to the client.
        beside: those of `down` that are not model weights but were added by an exchange.
        up: bytes from the client.
    """

    down: int = 0
    beside: int = 0
    up: int = 0

    @property
    def weights(self) -> int:
        """Bytes to the client without those that an exchange added."""
        return self.down - self.beside

    def __add__(self, other: "ClientBytes") -> "ClientBytes":
        return ClientBytes(self.down + other.down, self.beside + other.beside, self.up + other.up)


@dataclass(frozen=True)
class Round:
    """One round, as `metrics.jsonl` has it.

    Attributes:
        stage: the stage's name; rounds count from the start of their stage.
        round: the number of the round.
        asked: ids of the clients that were asked.
        answered: ids of those that answered.
        loss: mean loss, None where none was measured.
        metrics: figures over all pictures by name.
        by_subgroup: per subgroup, its figures by name (`loss`, `balanced_accuracy`, ...).
        seconds: wall-clock time.
        peers: per client of the global model that was given any, whose models it was given as peers.
        scalars: per client of the global model, what its objective reports of the round (`kept`).
        bytes_by_client: per client what it was sent and sent; empty where the run did not note it.
    """

    stage: str
    round: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    loss: float | None
    metrics: Mapping[str, float | None]
    by_subgroup: Mapping[str, Mapping[str, float | None]]
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
            seconds=line.get("seconds", 0.0),
            peers={client: tuple(note["peers"]) for client, note in notes.items() if note.get("peers")},
            scalars=of_global.get("scalars") or {},
            bytes_by_client={
                client: ClientBytes(sizes["down"], sizes.get("beside", 0), sizes["up"])
                for client, sizes in (line.get("bytes_by_client") or {}).items()
            },
        )


@dataclass(frozen=True)
class StageFacts:
    """What a stage reported in the run's summary.

    Attributes:
        stage: its name, as in the rounds and the counts.
        kind: what kind of stage it is: `federate`, `finetune`, ...
        facts: its `facts` in `summary.json`. Shown are `by_client`, `over_clients`, `by_community` and
            `by_class` (as `registry.bundle.metrics.summary` makes them), `similarity`, `unseen`, and of
            `models` the `novelty`.
    """

    stage: str
    kind: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class FineTuning:
    """The personal models: accuracies by epoch, and the epochs selected.

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
    def frontier(self) -> tuple[ChosenEpochs, ...]:
        """The best reachable accuracy by allowed spread, by the rule in force."""
        return frontier(self.accuracies, self.selection.config)

    @cached_property
    def frontier_without_floor(self) -> tuple[ChosenEpochs, ...] | None:
        """The frontier without the floor; None where that is the same."""
        return without_floor(self.accuracies, self.selection.config)

    @property
    def all_global(self) -> ChosenEpochs:
        """Epoch 0, which is the global model, for every subgroup."""
        return ChosenEpochs(dict.fromkeys(self.accuracies, 0), dict(self.selection.global_accuracies))


@dataclass(frozen=True)
class CalibratedModel:
    """Temperature and thresholds of one model.

    Attributes:
        subgroup: the subgroup that the model answers for; `global` for the global model.
        temperature: what divides its logits.
        conformal: from which score on a class is in the prediction set.
        working_point: from which malignancy on a lesion is suspicious; None where there is none.
        triage: which lesions are ruled out or urgent; None of a job without it.
        conclusions: what may be concluded.
        basis: `split`, or `cross-fitted`, as in the manifest.
    """

    subgroup: str
    temperature: Temperature
    conformal: ConformalThreshold
    working_point: WorkingPoint | None = None
    triage: TriageFit | None = None
    conclusions: Conclusions = field(default_factory=Conclusions)
    basis: str = "split"


@dataclass(frozen=True)
class ReportData:
    """Everything that the report of one run shows.

    Attributes:
        summary: the run's `summary.json`; its `job`, `recipe`, `seed`, `digest`, `stages` and `versions`
            are shown, and of the last stage's test block the `differences` and `intersections`. Its other
            figures are not: those come from `counts`, with intervals.
        labels: the classes in the order of the model's outputs.
        counts: per stage in the order in which they ran, per subgroup, the counts of the test split. The
            last stage is the one whose models are released. `UNDECLARED` may be one of the subgroups.
        rounds: the rounds of all stages, in order.
        facts: what the stages reported, in order.
        census: what the clients hold.
        fine_tuning: None where the job does not personalize.
        calibration: one entry per calibrated model; empty where the job does not calibrate.
        smallest_cell: scores of fewer patients than this, of a subgroup at a client, were counted together in
            histograms of the last stage.
        tones: per subgroup by declared skin tone, its values by scale; empty where there is none.
        claimed_tones: every skin tone of a subgroup, with the patients behind calibration and test; empty
            where the job does not calibrate.
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
    smallest_cell: int = 1
    tones: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    claimed_tones: Sequence[ClaimedTone] = ()
    notes: Sequence[str] = ()

    @property
    def last_test(self) -> Mapping[str, Any]:
        """The test block of the last stage that has one in the summary; empty where none has."""
        blocks = [block for stage in self.summary.get("stages", ()) if (block := stage.get("test"))]
        return blocks[-1] if blocks else {}


def communities_of(facts: Mapping[str, Any]) -> Communities:
    """The communities in a stage's facts; empty where there are none."""
    return {name: tuple(of["clients"]) for name, of in (facts.get("by_community") or {}).items()}


def in_order(clients: Iterable[str], communities: Communities) -> tuple[str, ...]:
    """Sort clients by community, each once, and those of no community last."""
    given = dict.fromkeys(clients)
    members = [client for of in communities.values() for client in of if client in given]
    return tuple(dict.fromkeys([*members, *given]))


def present(clients: Sequence[str], communities: Communities) -> dict[str, list[str]]:
    """The members of each community among these clients; a client of several counts in the first."""
    taken: set[str] = set()
    found: dict[str, list[str]] = {}
    for name, of in communities.items():
        members = [client for client in clients if client in of and client not in taken]
        taken |= set(members)
        if members:
            found[name] = members
    return found
