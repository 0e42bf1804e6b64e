"""What a run leaves is what its report is given, whether it ran through or was taken from disk."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import RuledOut, Share, TriageFit, Urgent
from personalization.report.data import judged, no_working_point, of_hospitals, report_data
from personalization.report.page import render_report
from personalization.report.run_tables import stages_table
from registry.bundle.conclusions import Conclusions
from registry.bundle.metrics.patient import Judged, findings
from tests.thresholds import concluding
from training.jobs.pipeline import run_stages
from training.jobs.run_folder import FinishedStage
from training.jobs.stages.base import StageResult

OBJECTIVE = {"name": "supervised", "batch_size": 8}
FEDERATE = {"stage": "federate", "rounds": 2, "objective": OBJECTIVE, "aggregator": {"name": "fedavg"}}
TRIAGE = TriageFit(
    0.1, 0.1, RuledOut(110, (Share(52, 1, 0.088),), 0.2, 0.1), Urgent(190, Share(60, 2, 0.1), 0.3, 0.12)
)
PERSONALIZE = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 2}}


@pytest.fixture
def finish(make_job, stand, hospitals, tmp_path):
    """Run these stages to their end; a second call takes them from disk."""

    def run(*stages, name="run"):
        context = stand(make_job(list(stages)), hospitals, name=name).context
        return run_stages(context.job, hospitals, context.engine, context.metrics_log, tmp_path / name)

    return run


def test_rounds_counts_and_census_are_those_of_the_run(finish, hospitals):
    result = finish(FEDERATE, PERSONALIZE)
    data = report_data(result)
    assert [(round_.stage, round_.round) for round_ in data.rounds] == [
        ("federate", 1),
        ("federate", 2),
        ("personalize", 1),
        ("personalize", 2),
    ]
    assert data.rounds[0].asked == ("north", "south")
    assert list(data.counts) == ["federate", "personalize"]
    for key, name in (("0-federate", "federate"), ("1-personalize", "personalize")):
        assert data.counts[name] == result.stages[key].outcome.test
    assert {row["client"] for row in data.census} == {"north", "south"}
    assert sum(row["n"] for row in data.census) == sum(len(part) for part in hospitals.held.values())
    assert data.calibration == ()


def test_two_stages_of_a_kind_are_told_apart_by_their_keys(finish):
    data = report_data(finish(FEDERATE, {**FEDERATE, "rounds": 1}))
    assert [round_.stage for round_ in data.rounds] == ["0-federate", "0-federate", "1-federate"]
    assert list(data.counts) == ["0-federate", "1-federate"]
    assert data.fine_tuning is None
    assert [stage["name"] for stage in data.summary["stages"]] == ["0-federate", "1-federate"]
    assert [(of.stage, of.kind) for of in data.facts] == [
        ("0-federate", "federate"),
        ("1-federate", "federate"),
    ]
    assert [row.cells[-1].text for row in stages_table(data).rows] == ["0 of 4", "0 of 2"]


def test_what_stages_told_is_given_to_the_report_as_it_stands_in_the_summary(finish):
    result = finish({"stage": "finetune", "epochs": 1, "objective": OBJECTIVE}, FEDERATE)
    data = report_data(result)
    assert [(of.stage, of.kind) for of in data.facts] == [("finetune", "finetune"), ("federate", "federate")]
    assert [of.facts for of in data.facts] == [stage["facts"] for stage in result.summary["stages"]]


def test_the_selection_shown_is_the_one_that_was_made(finish):
    result = finish(FEDERATE, {**PERSONALIZE, "selection": {"band": 0.1, "rule": "paper"}})
    shown = report_data(result).fine_tuning
    facts = result.stages["1-personalize"].outcome.facts
    assert shown.selection.epochs == {name: of["epoch"] for name, of in facts["by_subgroup"].items()}
    assert shown.selection.explanation == facts["explanation"]
    assert (shown.selection.config.band, shown.selection.config.rule) == (0.1, "paper")


def test_a_run_taken_from_disk_shows_the_same(finish):
    fresh, stored = finish(FEDERATE, PERSONALIZE), finish(FEDERATE, PERSONALIZE)
    before, after = report_data(fresh), report_data(stored)
    assert after.fine_tuning == before.fine_tuning
    assert after.rounds == before.rounds
    assert after.census == before.census
    assert json.dumps(after.summary) == json.dumps(before.summary)


def test_what_calibration_fixed_is_shown_for_every_model(finish):
    result = finish(FEDERATE, PERSONALIZE)
    models = {
        "global": {
            "temperature": {"value": 1.5, "fitted": 1.5, "n": 52},
            "conformal": {"threshold_bin": 120, "coverage": 0.9, "n": 50, "rank": 46},
            "triage": asdict(TRIAGE),
            "conclusions": concluding(0.5).model_dump(mode="json"),
            "basis": "cross-fitted",
        },
        "dark": {
            "temperature": {"value": 1.4, "fitted": None, "n": 3},
            "conformal": {"threshold_bin": 0, "coverage": 0.9, "n": 3, "rank": 4},
            "triage": None,
            "conclusions": Conclusions().model_dump(mode="json"),
            "basis": "split",
        },
    }
    key = "1-personalize"
    kept = result.stages[key].outcome
    outcome = StageResult(kept.models, test=kept.test, facts={**kept.facts, "models": models})
    data = report_data(replace(result, stages={**result.stages, key: FinishedStage(outcome, 1.0, 0)}))
    everybody, dark = data.calibration
    assert everybody.temperature == Temperature(1.5, 1.5, 52)
    assert everybody.conformal == ConformalThreshold(120, 0.9, 50, 46)
    assert (everybody.triage, everybody.conclusions) == (TRIAGE, concluding(0.5))
    assert (dark.triage, dark.conclusions) == (None, Conclusions())
    assert not dark.conformal.guaranteed
    assert [model.basis for model in data.calibration] == ["cross-fitted", "split"]


def test_test_pictures_that_no_count_holds_are_noted_with_both_numbers(finish):
    result = finish(FEDERATE)
    before = [f"{line}." for line in result.summary["notes"]]
    assert report_data(result).notes == before
    missing = {"not_counted": {"dark": {"counted": 96, "held": 99}}}
    *others, note = report_data(replace(result, summary={**result.summary, **missing})).notes
    assert others == before
    assert note.startswith(
        "Not counted: 3 of 99 test pictures of dark. A hospital tells nothing of fewer than"
    )


def test_hospitals_that_left_missed_rounds_or_never_came_are_noted():
    def failed(number, stage="federate", reason="offline"):
        return {"stage": stage, "round": number, "failed": [{"client": "north", "reason": reason}]}

    lines = [failed(1), {"stage": "federate", "round": 2}, failed(3, reason="slow"), failed(1, "personalize")]
    summary = {"dismissed": {"east": "Monday"}, "notes": ["a note"], "left_out": {"west": "no key"}}
    dismissed, note, *missed, never = of_hospitals(summary, lines)
    assert dismissed.startswith("east was dismissed from the run on Monday: ")
    assert (note, never[-13:]) == ("a note.", "known: no key")
    assert missed == [
        "north was left out in 2 rounds of federate, last in round 3: slow",
        "north was left out in 1 rounds of personalize, last in round 1: offline",
    ]


@pytest.mark.parametrize(("sensitivity", "notes"), [(0.95, 1), (None, 0)])
def test_a_working_point_that_was_asked_for_and_is_not_there_is_noted(make_job, sensitivity, notes):
    job = make_job([FEDERATE, {"stage": "export"}, {"stage": "calibrate", "sensitivity": sensitivity}])
    point = {
        "target": 0.95,
        "level": 0.95,
        "threshold_bin": 9,
        "sensitivity_low": 0.9,
        "n": 9,
        "reached": False,
    }
    models = {"global": {"working_point": point}, "dark": {"working_point": None}}
    done = SimpleNamespace(outcome=SimpleNamespace(facts={"models": models}))
    found = list(no_working_point(SimpleNamespace(job=job, stages={"2-calibrate": done})))
    assert len(found) == notes
    assert all(note.startswith("No working point for dark, though") for note in found)


def test_models_of_single_clients_are_shown_with_their_mean(finish):
    tune = {"stage": "finetune", "epochs": 1, "objective": OBJECTIVE}
    result = finish(tune, FEDERATE)
    page = render_report(report_data(result))
    _, rest = page.split("Each client\u2019s own model after stage \u201cfinetune\u201d</span>", 1)
    mean = result.summary["stages"][0]["facts"]["over_clients"]["balanced_accuracy"]["mean"]
    assert f"{mean:.3f}" in rest.split("mean over clients (median)")[1][:600]
    assert "Each client\u2019s own model" not in render_report(report_data(finish(FEDERATE, name="other")))


def test_models_of_clients_are_told_as_such(finish):
    result = finish(FEDERATE, {**PERSONALIZE, "per": "client"})
    data = report_data(result)
    page = render_report(data)

    assert data.fine_tuning.per == "client"
    assert set(data.fine_tuning.accuracies) == {"north", "south"}
    assert "Strategy “finetune”, one model per client." in page
    assert "Each client’s own model after stage “personalize”" in page


def test_after_models_of_clients_the_exported_model_is_judged_by_itself(finish):
    """Personal models stay at their clients; what is released is the model of the stage before."""
    result = finish(FEDERATE, {**PERSONALIZE, "per": "client"}, {"stage": "export"})
    shown = judged(result)
    federated, _, exported = shown.values()
    assert list(shown) == ["0-federate", "1-personalize", "2-export"]
    for name, block in federated.items():
        assert exported[name].point.scores.tolist() == block.point.scores.tolist()
    assert result.summary["test"]["accuracy"] == result.summary["stages"][0]["test"]["accuracy"]


def test_findings_are_those_of_the_models_that_may_be_released(finish, monkeypatch):
    """Models that stay at their clients are left out: the export is held against what came before them."""
    asked = []
    monkeypatch.setattr(
        "training.jobs.pipeline.findings", lambda stages: asked.append(stages) or findings(stages)
    )
    result = finish(FEDERATE, {**PERSONALIZE, "per": "client"}, {"stage": "export"}, {"stage": "calibrate"})
    federated, _, exported, calibrated = result.summary["stages"]
    stages = [
        Judged(stage["name"], stage["test"], stage["facts"].get("models", {}))
        for stage in (federated, exported, calibrated)
    ]
    assert asked == [stages]
    assert result.summary["findings"] == [asdict(one) for one in findings(stages)]
    assert {one["kind"] for one in result.summary["findings"]} >= {"nearly_nobody_answered"}


def test_the_decisions_on_all_test_pictures_are_told_beside_those_of_subgroups(finish):
    test = finish(FEDERATE, {"stage": "export"}, {"stage": "calibrate"}).summary["test"]
    rows = test["by_subgroup"].values()
    assert test["coverage"] == pytest.approx(sum(row["coverage"] * row["n"] for row in rows) / test["n"])
    low, high = test["intervals"]["coverage"]
    assert low <= test["coverage"] <= high
