"""From what a run left to what its report shows."""

from collections.abc import Mapping
from typing import Any

from personalization.abstention import AbstentionThreshold
from personalization.calibration import Temperature
from personalization.conformal import ConformalThreshold
from personalization.report.data import CalibratedModel, CensusCell, FineTuning, ReportData, Round
from personalization.selection import SelectionConfig, select
from training.pipeline import RunResult


def report_data(result: RunResult) -> ReportData:
    """All that the report of a finished run shows."""
    facts = {key: done.outcome.facts for key, done in result.stages.items()}
    return ReportData(
        summary=result.summary,
        labels=result.setting.labels,
        counts={key: done.outcome.test for key, done in result.stages.items() if done.outcome.test},
        rounds=[Round.from_line(line) for line in result.setting.journal.lines()],
        census=[CensusCell(**row) for row in result.setting.census.table()],
        fine_tuning=next(
            (fine_tuning(found) for found in facts.values() if "validation_accuracies" in found), None
        ),
        calibration=next((calibration(found["models"]) for found in facts.values() if "models" in found), ()),
    )


def fine_tuning(facts: Mapping[str, Any]) -> FineTuning:
    """How the personal models came about; the selection is made again from the same accuracies."""
    accuracies = {
        name: {int(epoch): value for epoch, value in by_epoch.items()}
        for name, by_epoch in facts["validation_accuracies"].items()
    }
    selection = select(accuracies, SelectionConfig.model_validate(facts["selection"]))
    return FineTuning(accuracies, facts["validation_pictures"], selection)


def calibration(models: Mapping[str, Mapping[str, Any]]) -> list[CalibratedModel]:
    """What was fixed for each model."""
    return [
        CalibratedModel(
            name,
            Temperature(**model["temperature"]),
            ConformalThreshold(**model["conformal"]),
            AbstentionThreshold(**model["abstention"]),
        )
        for name, model in models.items()
    ]
