"""From a finished run's result to the data of its report."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import TriageFit
from personalization.calibration.working_point import WorkingPoint
from personalization.report.data import (
    CalibratedModel,
    CensusCell,
    FineTuning,
    ReportData,
    Round,
    StageFacts,
)
from personalization.selection.proof import Proof
from personalization.selection.select import SelectionConfig, select, with_proofs
from personalization.stages.calibrate import PATIENTS_BY_TONE as TONES
from personalization.stages.calibrate import Calibrate
from personalization.stages.personalize import Personalize
from registry.bundle.conclusions import Conclusions
from registry.bundle.counts.score_bins import smallest_cell
from registry.bundle.labels import ClaimedTone, Subgroup, TonePatients, claimed_tones
from training.data.subgroups import ToneGroups
from training.jobs.pipeline import RunResult
from training.jobs.stages.base import Stage
from training.rounds.requests import Blocks


def report_data(result: RunResult) -> ReportData:
    """The report data of a finished run."""
    facts = {key: done.outcome.facts for key, done in result.stages.items()}
    names = stage_names(result)
    lines = result.context.metrics_log.lines()
    counts = judged(result)
    groups, privacy = result.job.data.subgroups, result.job.privacy
    return ReportData(
        summary=with_stage_names(result.summary, list(names.values())),
        labels=result.context.labels,
        counts={names[key]: test for key, test in counts.items()},
        rounds=[Round.from_line({**line, "stage": names[line["stage"]]}) for line in lines],
        facts=[StageFacts(names[key], result.job.stage(key).stage, found) for key, found in facts.items()],
        census=[CensusCell(**row) for row in result.context.census.table()],
        fine_tuning=next(
            (
                fine_tuning(found, result.job.stage(key))
                for key, found in facts.items()
                if "validation_accuracies" in found
            ),
            None,
        ),
        calibration=next(
            (calibration(found["models"]) for found in facts.values() if "models" in found),
            (),
        ),
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
            found += [name for name, model in models.items() if working_point(model) is None]
    return [
        f"No working point for {name}, though the job asks for a sensitivity: hospitals told of no malignant "
        "calibration lesion. No lesion is called suspicious there. Raise data.split.calibration, or "
        "bring malignant lesions."
        for name in found
    ]


def working_point(model: Mapping[str, Any]) -> WorkingPoint | None:
    """The working point in the facts of one model; None where it has none."""
    found = model.get("working_point")
    return None if found is None else WorkingPoint(**found)


def stage_names(result: RunResult) -> dict[str, str]:
    """The name of each stage in the report: its kind, or its key where a job has two of a kind."""
    kinds = {key: result.job.stage(key).stage for key in result.stages}
    return {key: kind if list(kinds.values()).count(kind) == 1 else key for key, kind in kinds.items()}


def with_stage_names(summary: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The summary with its stages named as in the rest of the report."""
    stages = [{**stage, "name": name} for stage, name in zip(summary["stages"], names, strict=True)]
    return {**summary, "stages": stages}


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
    proofs = {name: Proof.from_json(told) for name, told in facts.get("proofs", {}).items()}
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
    return [
        CalibratedModel(
            name,
            Temperature(**model["temperature"]),
            ConformalThreshold(**model["conformal"]),
            working_point(model),
            TypeAdapter(TriageFit | None).validate_python(model["triage"]),
            Conclusions.model_validate(model["conclusions"]),
            model["basis"],
        )
        for name, model in models.items()
    ]
