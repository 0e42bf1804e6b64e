"""Figures without some hospitals: who is missing is told wherever the figures are."""

import pytest

from personalization.report.data import missing
from registry.gates.fairness import RequiredSubgroupsGate
from registry.gates.gate import Case
from training.engines.in_process import InProcessEngine
from training.errors import QuorumError
from training.messages import Failure, Update
from training.printing import print_summary

LIGHT, DARK = {"light": (6, 4, 6, 6)}, {"dark": (6, 4, 6, 6)}
SIZES = {
    "clinic-0": LIGHT,
    "clinic-1": LIGHT,
    "clinic-2": LIGHT,
    "clinic-3": {**LIGHT, **DARK},
    "clinic-4": {**LIGHT, **DARK},
}
DARK_ONES = ("clinic-3", "clinic-4")
CALIBRATION = ("likelihoods", "truth", "counts", "embeddings", "distances")
GATE = RequiredSubgroupsGate(malignant=1, subgroups=("light", "dark"))


@pytest.fixture(scope="module")
def data(make_dataset):
    return make_dataset(SIZES)


@pytest.fixture
def drop(monkeypatch):
    """`drop(clients, asks)`: a coordinator that never passes these requests on to these hospitals."""
    asked = InProcessEngine.run_round

    def dropping(clients, asks):
        def run_round(self, broadcasts):
            kept = [each for each in broadcasts if not (each.client in clients and each.ask in asks)]
            answers = iter(asked(self, kept))
            return [
                next(answers) if in_kept else Failure(each.client, each.track, "its line is cut")
                for each, in_kept in ((each, any(each is one for one in kept)) for each in broadcasts)
            ]

        monkeypatch.setattr(InProcessEngine, "run_round", run_round)

    return dropping


def job_of(make_job, federate_block, quorum, *, calibrate=False, **privacy):
    stages = [federate_block(rounds=1, evaluate_on=None)]
    if calibrate:
        stages += [{"stage": "export"}, {"stage": "calibrate"}]
    return make_job(stages=stages, evaluation={"quorum": quorum}, privacy=privacy)


def test_hospitals_that_are_dropped_from_the_test_are_missed_by_subgroup_everywhere(
    make_job, federate_block, run_job, data, drop, capsys, tmp_path
):
    """The attack: a coordinator that leaves out exactly the hospitals with dark skin."""
    drop(DARK_ONES, {"test", *CALIBRATION})
    ran = run_job(job_of(make_job, federate_block, 0.6, calibrate=True), data)
    dark = {"clients": 2, "of": 2, "pictures": 12, "held": 12}
    light = {"clients": 2, "of": 5, "pictures": 12, "held": 30}
    for key in ("0-federate", "2-calibrate"):
        told = ran.result.stages[key].outcome.facts["missing"]
        assert told["by_subgroup"] == {"light": light, "dark": dark}
        assert (told["clients"], told["of"]) == (2, 5)
        assert told["reasons"] == {"clinic-3": "its line is cut", "clinic-4": "its line is cut"}
    assert "missing" not in ran.result.stages["1-export"].outcome.facts
    manifest = ran.result.stages["2-calibrate"].outcome.bundles["global"].manifest
    assert manifest.metrics["n"] == 18
    assert manifest.metrics["missing"]["by_subgroup"]["dark"] == dark
    assert "clinic-3" not in manifest.model_dump_json()
    assert manifest.metrics["by_subgroup"].keys() == {"light"}
    assert ran.result.summary["test"]["n"] == 18
    assert ran.result.summary["not_counted"]["dark"] == {"counted": 0, "held": 12}
    notes = list(missing(ran.result))
    assert "dark: 12 of 12 test pictures, of 2 of 2 hospitals" in notes[0]
    assert "clinic-3: its line is cut" in notes[1]
    print_summary(ran.result.summary, tmp_path, as_json=False)
    assert "missing: 2 of 5 hospitals in the figures of calibrate" in capsys.readouterr().out
    assert GATE.judge(Case((manifest,))).verdict == "refused"


def test_with_everybody_there_a_quorum_changes_nothing(make_job, federate_block, run_job, data, tmp_path):
    """The control: nothing is said to be missing, and the gate lets the same model pass."""
    ran = run_job(job_of(make_job, federate_block, 0.6, calibrate=True), data)
    manifest = ran.result.stages["2-calibrate"].outcome.bundles["global"].manifest
    assert "missing" not in manifest.metrics
    assert manifest.metrics["n"] == 42
    assert all("missing" not in stage.outcome.facts for stage in ran.result.stages.values())
    assert list(missing(ran.result)) == []
    assert GATE.judge(Case((manifest,))).verdict != "refused"


def test_fewer_than_the_quorum_stop_the_run(make_job, federate_block, run_job, data, drop):
    drop(("clinic-0", *DARK_ONES), {"test"})
    with pytest.raises(QuorumError, match=r"needs 3 of 5 clients.*lower evaluation\.quorum"):
        run_job(job_of(make_job, federate_block, 0.6), data)


def test_an_answer_that_is_none_is_missing_too(make_job, federate_block, run_job, data, on_answers):
    def wrong(request, answer):
        if (request.ask, request.client) != ("test", "clinic-1"):
            return answer
        return Update(*request.address, scalars={"wrong": float("nan")})

    on_answers(wrong)
    ran = run_job(job_of(make_job, federate_block, 0.8), data)
    assert (
        "not a finite number"
        in ran.result.stages["0-federate"].outcome.facts["missing"]["reasons"]["clinic-1"]
    )


def test_under_masks_a_sum_begins_anew_without_who_is_missing(make_job, federate_block, run_job, data, drop):
    job = job_of(make_job, federate_block, 0.6, counts={"masks": True})
    drop(DARK_ONES, {"test"})
    ran = run_job(job, data)
    assert ran.result.summary["test"]["n"] == 18
    assert ran.result.stages["0-federate"].outcome.facts["missing"]["by_subgroup"]["dark"]["clients"] == 2
