"""The data of a run's report: plain records, and how they follow from a finished run's result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import TriageFit
from personalization.selection.proof import Proof
from personalization.selection.select import (
    ChosenEpochs,
    Selection,
    SelectionConfig,
    frontier,
    select,
    with_proofs,
    without_floor,
)
from personalization.stages.calibrate import PATIENTS_BY_TONE as TONES
from personalization.stages.calibrate import Calibrate
from personalization.stages.personalize import Personalize
from registry.bundle.conclusions import Conclusions
from registry.bundle.counts.counting import Block
from registry.bundle.counts.score_bins import smallest_cell
from registry.bundle.labels import ClaimedTone, Label, Subgroup, TonePatients, claimed_tones
from registry.bundle.manifest import WorkingPoint
from training.data.subgroups import ToneGroups
from training.jobs.pipeline import RunResult
from training.jobs.stages.base import Stage
from training.messages.message import GLOBAL
from training.rounds.requests import Blocks

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

    def communities(self, stage: str) -> Communities:
        """The communities that a stage reported; empty where it did not."""
        return communities_of(next((of.facts for of in self.facts if of.stage == stage), {}))

    @property
    def last_test(self) -> Mapping[str, Any]:
        """The test block of the last stage that has one in the summary; empty where none has."""
        blocks = [block for stage in self.summary.get("stages", ()) if (block := stage.get("test"))]
        return blocks[-1] if blocks else {}


def by_stage(rounds: Iterable[Round]) -> dict[str, list[Round]]:
    """The rounds of each stage, in order."""
    found: dict[str, list[Round]] = {}
    for entry in rounds:
        found.setdefault(entry.stage, []).append(entry)
    return found


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


def report_data(result: RunResult) -> ReportData:
    """The report data of a finished run."""
    facts = {key: done.outcome.facts for key, done in result.stages.items()}
    names = stage_names(result)
    tuned = [key for key, found in facts.items() if "validation_accuracies" in found]
    lines = result.context.metrics_log.lines()
    counts = judged(result)
    stages = [
        {**stage, "name": name}  # as in the rest of the report
        for stage, name in zip(result.summary["stages"], names.values(), strict=True)
    ]
    groups, privacy = result.job.data.subgroups, result.job.privacy
    return ReportData(
        summary={**result.summary, "stages": stages},
        labels=result.context.labels,
        counts={names[key]: test for key, test in counts.items()},
        rounds=[Round.from_line({**line, "stage": names[line["stage"]]}) for line in lines],
        facts=[StageFacts(names[key], result.job.stage(key).stage, found) for key, found in facts.items()],
        census=[CensusCell(**row) for row in result.context.census.table()],
        fine_tuning=next((fine_tuning(facts[key], result.job.stage(key)) for key in tuned), None),
        calibration=next((calibration(of["models"]) for of in facts.values() if "models" in of), ()),
        smallest_cell=1 if privacy.counts.epsilon is not None else smallest_cell(privacy.min_count),
        tones=groups.tones if isinstance(groups, ToneGroups) else {},
        claimed_tones=next(
            (tones_of(groups, found[TONES]) for found in facts.values() if TONES in found), ()
        ),
        notes=[
            *dismissed(result.summary),
            *(f"{line}." for line in result.summary.get("notes", ())),
            *left_out(lines),
            *never_there(result.summary),
            *missing(result),
            *not_counted(result),
            *no_working_point(result),
        ],
    )


def tones_of(groups: Any, counted: Mapping[str, Any]) -> tuple[ClaimedTone, ...]:
    """The skin tones of a job's subgroups with their patients, as the stage `calibrate` counted them."""
    named = groups.tones if isinstance(groups, ToneGroups) else {}
    subgroups = [Subgroup.of_tones(name, tones) for name, tones in named.items()]
    return claimed_tones(subgroups, TonePatients.model_validate(counted))


def dismissed(summary: Mapping[str, Any]) -> list[str]:
    """A note on each hospital that left the run."""
    return [
        f"{name} was dismissed from the run on {when}: it was asked nothing more, neither to train nor "
        "for tests. What it taught the models before is in them."
        for name, when in summary.get("dismissed", {}).items()
    ]


def left_out(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """A note on each hospital that was left out of rounds, with the newest reason."""
    rounds: dict[tuple[str, str], list[int]] = {}
    reasons: dict[tuple[str, str], str] = {}
    for line in lines:
        for failure in line.get("failed", ()):
            key = line["stage"], failure["client"]
            rounds.setdefault(key, []).append(line["round"])
            reasons[key] = failure["reason"]
    return [
        f"{client} was left out in {len(set(numbers))} rounds of {stage}, last in round {numbers[-1]}: "
        f"{reasons[stage, client]}"
        for (stage, client), numbers in rounds.items()
    ]


def never_there(summary: Mapping[str, Any]) -> list[str]:
    """A note on each hospital that the run was for and that never took part."""
    return [
        f"{name} took no part in the run, neither to train nor for tests, and of whom its pictures are is "
        f"not known: {why}"
        for name, why in summary.get("left_out", {}).items()
    ]


def missing(result: RunResult) -> list[str]:
    """A note on each stage whose figures are without hospitals that did not answer, by subgroup."""
    found = []
    for key, done in result.stages.items():
        told = done.outcome.facts.get("missing")
        if told is None:
            continue
        of_subgroups = "; ".join(
            f"{name}: {of['pictures']} of {of['held']} test pictures, "
            f"of {of['clients']} of {of['of']} hospitals"
            for name, of in told["by_subgroup"].items()
        )
        why = "; ".join(f"{client}: {reason}" for client, reason in told["reasons"].items())
        found.append(
            f"Figures of {key} are without {told['clients']} of {told['of']} hospitals, which did not answer "
            f"(evaluation.quorum). Missing of {of_subgroups or 'no subgroup'}. {why}."
        )
    return found


def not_counted(result: RunResult) -> list[str]:
    """A note on each subgroup where hospitals hold more test pictures than their disclosed counts cover."""
    privacy = result.job.privacy
    why = (
        f"A hospital tells nothing of fewer than {privacy.min_count} patients, nor what differs from an "
        "earlier answer by fewer (privacy.min_count); its own log says which."
    )
    if privacy.counts.epsilon is not None:
        why += " With noise on counts one picture of each patient is counted."
    return [
        f"Not counted: {of['held'] - of['counted']} of {of['held']} test pictures of {name}. {why}"
        for name, of in result.summary.get("not_counted", {}).items()
    ]


def no_working_point(result: RunResult) -> list[str]:
    """A note on each model without the working point that the job asks for."""
    found = []
    for key, done in result.stages.items():
        stage = result.job.stage(key)
        if isinstance(stage, Calibrate) and stage.sensitivity is not None:
            models = done.outcome.facts.get("models", {})
            found += [name for name, model in models.items() if model.get("working_point") is None]
    return [
        f"No working point for {name}, though the job asks for a sensitivity: hospitals told of no malignant "
        "calibration lesion. No lesion is called suspicious there. Raise data.split.calibration, or "
        "bring malignant lesions."
        for name in found
    ]


def stage_names(result: RunResult) -> dict[str, str]:
    """The name of each stage in the report: its kind, or its key where a job has two of a kind."""
    kinds = {key: result.job.stage(key).stage for key in result.stages}
    return {key: kind if list(kinds.values()).count(kind) == 1 else key for key, kind in kinds.items()}


def judged(result: RunResult) -> dict[str, Blocks]:
    """The test counts of each stage that evaluated its models, not of one that passed counts on."""
    found: dict[str, Blocks] = {}
    anew = True
    for key, done in result.stages.items():
        if done.outcome.test and (anew or not result.job.stage(key).passes_figures_on):
            found[key] = done.outcome.test
        anew = done.outcome.tests_local_models
    return found


def fine_tuning(facts: Mapping[str, Any], stage: Stage) -> FineTuning:
    """The fine-tuning section's data; the selection is made again from the same accuracies."""
    accuracies = {
        name: {int(epoch): value for epoch, value in by_epoch.items()}
        for name, by_epoch in facts["validation_accuracies"].items()
    }
    proofs = TypeAdapter(dict[str, Proof]).validate_python(facts.get("proofs", {}))
    selection = with_proofs(
        select(accuracies, SelectionConfig.model_validate(facts["selection"])), accuracies, proofs
    )
    return FineTuning(
        accuracies,
        facts["validation_pictures"],
        selection,
        strategy=stage.strategy.name if isinstance(stage, Personalize) else None,
        per=facts.get("per", "subgroup"),
    )


def calibration(models: Mapping[str, Mapping[str, Any]]) -> list[CalibratedModel]:
    """The calibrated models from a stage's facts."""
    read = TypeAdapter(CalibratedModel).validate_python
    return [read({"subgroup": name, **model}) for name, model in models.items()]
