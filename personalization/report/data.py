"""The data of a run's report: plain records, and how they follow from a finished run's result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal

from pydantic import TypeAdapter

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import TriageFit
from personalization.report.measures import ALL, Blocks, Figures, compared, figures_of, present
from personalization.selection import (
    ChosenEpochs,
    Proof,
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
from registry.bundle.counting import Block
from registry.bundle.labels import ClaimedTone, Label, Subgroup, TonePatients, claimed_tones
from registry.bundle.manifest import WorkingPoint
from registry.bundle.score_bins import smallest_cell
from training.data.subgroups import ToneGroups
from training.jobs.pipeline import RunResult
from training.jobs.stages.base import Stage
from training.messages import GLOBAL

Communities = Mapping[str, Sequence[str]]
"""Names of groups of clients, and who is in them."""


@dataclass(frozen=True)
class Round:
    """One round, as `metrics.jsonl` has it.

    Attributes:
        stage: the stage's name; rounds count from the start of their stage.
        round: the number of the round.
        asked: ids of the clients that were asked.
        answered: ids of those that answered.
        metrics: figures over all pictures by name, and the mean `loss`.
        by_subgroup: per subgroup, its figures by name (`loss`, `balanced_accuracy`, ...).
        peers: per client of the global model that was given any, whose models it was given as peers.
        scalars: per client of the global model, what its objective reports of the round (`kept`).
        bytes_by_client: per client the bytes sent to it, those of them that an exchange added to the weights,
            and those sent by it; empty where the run did not note it.
    """

    stage: str
    round: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    metrics: Mapping[str, float | None]
    by_subgroup: Mapping[str, Mapping[str, float | None]]
    peers: Mapping[str, Sequence[str]]
    scalars: Mapping[str, Mapping[str, float]]
    bytes_by_client: Mapping[str, tuple[int, int, int]]

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> "Round":
        """A round from one parsed line of `metrics.jsonl`; keys that a report does not use are ignored."""
        of_global = (line.get("models") or {}).get(GLOBAL) or {}
        notes, sizes = of_global.get("exchange") or {}, line.get("bytes_by_client") or {}
        return cls(
            stage=line["stage"],
            round=line["round"],
            asked=tuple(line["asked"]),
            answered=tuple(line["answered"]),
            metrics={**(line.get("metrics") or {}), "loss": line.get("loss")},
            by_subgroup=line.get("by_subgroup") or {},
            peers={client: tuple(note["peers"]) for client, note in notes.items() if note.get("peers")},
            scalars=of_global.get("scalars") or {},
            bytes_by_client={
                client: (of["down"], of.get("beside", 0), of["up"]) for client, of in sizes.items()
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

    @property
    def communities(self) -> Communities:
        """The communities that it reported; empty where it did not."""
        return {name: tuple(of["clients"]) for name, of in (self.facts.get("by_community") or {}).items()}


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
            figures follow again from `counts`.
        labels: the classes in the order of the model's outputs.
        counts: per stage in the order in which they ran, per subgroup, the counts of the test split. The
            last stage is the one whose models are released. `UNDECLARED` may be one of the subgroups.
        rounds: the rounds of all stages, in order.
        facts: what the stages reported, in order.
        census: what the clients hold: rows of `client`, `subgroup`, `label`, `split` and `n`.
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
    counts: Mapping[str, Blocks]
    rounds: Sequence[Round] = ()
    facts: Sequence[StageFacts] = ()
    census: Sequence[Mapping[str, Any]] = ()
    fine_tuning: FineTuning | None = None
    calibration: Sequence[CalibratedModel] = ()
    smallest_cell: int = 1
    tones: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    claimed_tones: Sequence[ClaimedTone] = ()
    notes: Sequence[str] = ()

    @cached_property
    def tested(self) -> Mapping[str, Mapping[str, Figures]]:
        """Per stage, the figures of every subgroup with pictures, and of all pictures together."""
        return {
            stage: {
                **{name: figures_of([block], self.labels) for name, block in present(blocks).items()},
                ALL: figures_of(blocks.values(), self.labels),
            }
            for stage, blocks in self.counts.items()
        }

    @property
    def last(self) -> str:
        """The stage whose models are released."""
        return list(self.counts)[-1]

    @property
    def blocks(self) -> Blocks:
        """The test counts of its models, of the subgroups with pictures."""
        return present(self.counts[self.last])

    @property
    def total(self) -> Block:
        """The test counts of all pictures together."""
        return reduce(add, self.counts[self.last].values())

    @property
    def figures(self) -> Mapping[str, Figures]:
        """Their figures, of each subgroup and of all pictures together."""
        return self.tested[self.last]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All subgroups but the undeclared one, in the order in which they first appear."""
        tested = [name for rows in self.tested.values() for name in compared(rows)]
        personal = self.fine_tuning
        fine_tuned = personal.accuracies if personal and personal.per == "subgroup" else ()
        return tuple(dict.fromkeys([*tested, *fine_tuned]))

    @property
    def answered_by(self) -> dict[str, CalibratedModel]:
        """The model of each tested subgroup; a subgroup that no calibrated model answers is left out."""
        by_name = {model.subgroup: model for model in self.calibration}
        found = {name: by_name.get(name, by_name.get(GLOBAL)) for name in self.blocks}
        return {name: model for name, model in found.items() if model is not None}

    def told(self, what: str) -> list[StageFacts]:
        """The stages that reported such facts, in order."""
        return [of for of in self.facts if of.facts.get(what)]

    def communities(self, stage: str) -> Communities:
        """The communities that a stage reported; empty where it did not."""
        return next((of.communities for of in self.facts if of.stage == stage), {})

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


def in_order(clients: Iterable[str], communities: Communities) -> tuple[str, ...]:
    """Sort clients by community, each once, and those of no community last."""
    given = dict.fromkeys(clients)
    members = [client for of in communities.values() for client in of if client in given]
    return tuple(dict.fromkeys([*members, *given]))


def members_among(clients: Sequence[str], communities: Communities) -> dict[str, list[str]]:
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
    lines = result.context.metrics_log.lines()
    stages = [
        {**stage, "name": name}  # as in the rest of the report
        for stage, name in zip(result.summary["stages"], names.values(), strict=True)
    ]
    groups, privacy = result.job.data.subgroups, result.job.privacy
    read = TypeAdapter(CalibratedModel).validate_python
    models: Mapping[str, Any] = next((of["models"] for of in facts.values() if "models" in of), {})
    return ReportData(
        summary={**result.summary, "stages": stages},
        labels=result.context.labels,
        counts={names[key]: test for key, test in judged(result).items()},
        rounds=[Round.from_line({**line, "stage": names[line["stage"]]}) for line in lines],
        facts=[StageFacts(names[key], result.job.stage(key).stage, found) for key, found in facts.items()],
        census=result.context.census.table(),
        fine_tuning=next(
            (
                fine_tuning(found, result.job.stage(key))
                for key, found in facts.items()
                if "validation_accuracies" in found
            ),
            None,
        ),
        calibration=tuple(read({"subgroup": name, **model}) for name, model in models.items()),
        smallest_cell=1 if privacy.counts.epsilon is not None else smallest_cell(privacy.min_count),
        tones=groups.tones if isinstance(groups, ToneGroups) else {},
        claimed_tones=next(
            (tones_of(groups, found[TONES]) for found in facts.values() if TONES in found), ()
        ),
        notes=[
            *of_hospitals(result.summary, lines),
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


def of_hospitals(summary: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The run's own notes, and one on each hospital that left, missed rounds or never took part."""
    for name, when in summary.get("dismissed", {}).items():
        yield (
            f"{name} was dismissed from the run on {when}: it was asked nothing more, neither to train nor "
            "for tests. What it taught the models before is in them."
        )
    yield from (f"{line}." for line in summary.get("notes", ()))
    left_out: dict[tuple[str, str], dict[int, str]] = {}
    for line in lines:
        for failure in line.get("failed", ()):
            of_client = left_out.setdefault((line["stage"], failure["client"]), {})
            of_client[line["round"]] = failure["reason"]
    for (stage, client), reasons in left_out.items():
        number, reason = list(reasons.items())[-1]
        yield (f"{client} was left out in {len(reasons)} rounds of {stage}, last in round {number}: {reason}")
    for name, why in summary.get("left_out", {}).items():
        yield (
            f"{name} took no part in the run, neither to train nor for tests, and of whom its pictures are "
            f"is not known: {why}"
        )


def missing(result: RunResult) -> Iterator[str]:
    """A note on each stage whose figures are without hospitals that did not answer, by subgroup."""
    for key, done in result.stages.items():
        if (told := done.outcome.facts.get("missing")) is None:
            continue
        of_subgroups = "; ".join(
            f"{name}: {of['pictures']} of {of['held']} test pictures, "
            f"of {of['clients']} of {of['of']} hospitals"
            for name, of in told["by_subgroup"].items()
        )
        why = "; ".join(f"{client}: {reason}" for client, reason in told["reasons"].items())
        yield (
            f"Figures of {key} are without {told['clients']} of {told['of']} hospitals, which did not answer "
            f"(evaluation.quorum). Missing of {of_subgroups or 'no subgroup'}. {why}."
        )


def not_counted(result: RunResult) -> Iterator[str]:
    """A note on each subgroup where hospitals hold more test pictures than their disclosed counts cover."""
    privacy = result.job.privacy
    why = (
        f"A hospital tells nothing of fewer than {privacy.min_count} patients, nor what differs from an "
        "earlier answer by fewer (privacy.min_count); its own log says which."
    )
    if privacy.counts.epsilon is not None:
        why += " With noise on counts one picture of each patient is counted."
    for name, of in result.summary.get("not_counted", {}).items():
        uncounted = of["held"] - of["counted"]
        yield f"Not counted: {uncounted} of {of['held']} test pictures of {name}. {why}"


def no_working_point(result: RunResult) -> Iterator[str]:
    """A note on each model without the working point that the job asks for."""
    for key, done in result.stages.items():
        stage = result.job.stage(key)
        if not isinstance(stage, Calibrate) or stage.sensitivity is None:
            continue
        for name, model in done.outcome.facts.get("models", {}).items():
            if model.get("working_point") is None:
                yield (
                    f"No working point for {name}, though the job asks for a sensitivity: hospitals told of "
                    "no malignant calibration lesion. No lesion is called suspicious there. Raise "
                    "data.split.calibration, or bring malignant lesions."
                )


def stage_names(result: RunResult) -> dict[str, str]:
    """The name of each stage in the report: its kind, or its key where a job has two of a kind."""
    kinds = {key: result.job.stage(key).stage for key in result.stages}
    return {key: kind if list(kinds.values()).count(kind) == 1 else key for key, kind in kinds.items()}


def judged(result: RunResult) -> dict[str, Blocks]:
    """The test counts of each stage that evaluated its models, not of one that passed counts on."""
    found: dict[str, Blocks] = {}
    again = True
    for key, done in result.stages.items():
        if done.outcome.test and (again or not result.job.stage(key).passes_figures_on):
            found[key] = done.outcome.test
        again = done.outcome.tests_local_models
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
