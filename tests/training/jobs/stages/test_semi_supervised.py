"""Semi-supervised rounds through the real loop: FixMatch, peers, the server, clients without labels."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.thorough import mostly_long
from tests.training.conftest import withheld
from training.engines.in_process import InProcessEngine
from training.errors import CheckpointError, JobError
from training.rounds.server.plan import choose_cohort

GATED_VALIDATION = {"name": "gated-validation", "threshold": 0.4}
SIZES = {
    "north": {"light": (13, 4, 4, 6), "dark": (5, 3, 3, 4)},
    "south": {"dark": (9, 4, 3, 5)},
    "west": {"light": (8, 3, 3, 3)},
    "east": {"light": (7, 3, 3, 3), "dark": (4, 3, 3, 3)},
}
FIXMATCH = {
    "name": "fixmatch",
    "batch_size": 4,
    "samples": 8,
    "threshold": 0.5,
    "gamma": 0.5,
    "augment": {"flip": True},
    "strong": {"operations": 1, "magnitude": 10},
    "optimizer": {"name": "adam", "lr": 0.002},
}


@pytest.fixture
def few_labels(make_dataset):
    """Four clients with labels on three, two, all and none of their training pictures."""
    return withheld(make_dataset(SIZES), {"north": 3, "south": 2, "east": 0})


@pytest.fixture
def job_of(make_job):
    """`job_of(exchange={...}, **changes)`: four rounds of FixMatch."""

    def build(exchange=None, objective=None, **changes):
        block = {"rounds": 4, "objective": FIXMATCH | (objective or {}), "aggregator": {"name": "fedequal"}}
        if exchange is not None:
            block["exchange"] = {"name": "peers", "warm_up": 1, **exchange}
        return make_job(federate=block | changes)

    return build


def same(one, two):
    return all(torch.equal(one[name], tensor) for name, tensor in two.items())


def test_no_peers_is_ssfl_to_the_bit(job_of, run_job, few_labels, tmp_path):
    without = run_job(job_of(rounds=2), few_labels, tmp_path / "without")
    none = run_job(job_of({"peers": 0}, rounds=2), few_labels, tmp_path / "none")
    some = run_job(job_of({"peers": 2}, rounds=2), few_labels, tmp_path / "some")
    assert same(without.weights(), none.weights())
    assert not same(without.weights(), some.weights())
    assert [line["loss"] for line in without.lines] == [line["loss"] for line in none.lines]
    assert "similarity" not in none.result.stages["0-federate"].outcome.facts
    assert some.result.stages["0-federate"].outcome.facts["similarity"]["clients"] == sorted(SIZES)
    assert not (some.out / "checkpoints" / "0-federate" / "uploads").exists(), "the stage is done"


@pytest.mark.parametrize(
    ("exchange", "cost"),
    mostly_long(
        [
            ({"peers": 0}, 0),
            ({"peers": 2}, 100),
            ({"peers": 1, "anonymous": False}, 100),
            ({"peers": 3, "anonymous": False}, 300),
            ({"peers": 2, "anonymous": False, "choice": {"name": "predictions"}}, 200),
            ({"peers": 2, "policy": {"name": "gated-similarity", "threshold": 1.0}}, 0),
        ],
        ({"peers": 2}, 100),
        ({"peers": 2, "anonymous": False, "choice": {"name": "predictions"}}, 200),
        ({"peers": 2, "policy": {"name": "gated-similarity", "threshold": 1.0}}, 0),
    ),
)
def test_the_additional_cost_is_what_was_really_sent(job_of, run_job, few_labels, exchange, cost):
    ran = run_job(job_of(exchange, rounds=2, evaluate_on=None), few_labels)
    (model,) = {line["bytes_by_client"]["north"]["up"] for line in ran.lines}
    for line in ran.lines:
        for sent in line["bytes_by_client"].values():
            assert sent["up"] == model
            assert sent["down"] - sent["beside"] == model
            assert sent["beside"] * 100 == (cost if line["round"] > 1 else 0) * model


def test_a_kill_between_an_upload_and_its_checkpoint_does_not_matter(
    job_of, run_job, few_labels, tmp_path, cut_at
):
    job = job_of({"peers": 2}, participation=0.5, rounds=3, evaluate_on=None)
    calls = cut_at(0)
    whole = run_job(job, few_labels, tmp_path / "whole")
    last = len(calls)
    for moment in range(3, last, 4):
        folder = tmp_path / f"cut-{moment}"
        cut_at(moment)
        with pytest.raises(KeyboardInterrupt):
            run_job(job, few_labels, folder)
        cut_at(0)
        assert same(whole.weights(), run_job(job, few_labels, folder).weights()), moment
    assert last > 12


def test_an_upload_that_is_gone_is_told_by_its_path(job_of, run_job, few_labels, tmp_path, monkeypatch):
    job = job_of({"peers": 2})
    calls = []

    def stop(self, *arguments, **keywords):
        calls.append(1)
        if len(calls) == 4:  # who holds what, round 1, its evaluation, round 2
            raise KeyboardInterrupt
        return run_round(self, *arguments, **keywords)

    run_round = InProcessEngine.run_round
    with monkeypatch.context() as patch:
        patch.setattr(InProcessEngine, "run_round", stop)
        with pytest.raises(KeyboardInterrupt):
            run_job(job, few_labels)
    uploads = tmp_path / "run" / "checkpoints" / "0-federate" / "uploads"
    assert sorted(path.name for path in uploads.iterdir()) == sorted(SIZES)
    next((uploads / "north").iterdir()).unlink()
    with pytest.raises(CheckpointError, match="what north uploaded in round 1, from which others learn"):
        run_job(job, few_labels)


@pytest.fixture
def with_server(make_dataset):
    """As `few_labels`, with a server: `with_server(train)` of whose pictures are for training."""

    def build(train, keep):
        sizes = {**SIZES, "server": {"light": (train, 8, 0, 0), "dark": (train, 6, 0, 0)}}
        return withheld(make_dataset(sizes), keep)

    return build


@pytest.mark.parametrize(
    "policy", mostly_long([{"name": "validation"}, GATED_VALIDATION], GATED_VALIDATION), ids=str
)
def test_uploads_are_judged_by_the_server_which_is_not_asked_to_train(
    job_of, run_job, run_killed, with_server, policy, on_answers
):
    data = with_server(0, {"north": 3, "east": 0})
    asked = []
    on_answers(lambda request, answer: asked.append((request.client, request.ask)) or answer)
    job = job_of({"peers": 2, "policy": policy}, participation=0.5)
    ran = run_job(job, data)
    assert asked.count(("server", "judge")) == 4 * 2
    assert {ask for client, ask in asked if client == "server"} == {"census", "judge"}
    assert same(ran.weights(), run_killed(job, data).weights())
    for line in ran.lines:
        assert "server" not in line["asked"]
        evaluation = line["bytes_down"] - sum(sent["down"] for sent in line["bytes_by_client"].values())
        assert evaluation == 4 * line["bytes_by_client"][line["asked"][0]]["up"], (
            "what went to the server cost nothing"
        )
    facts = ran.result.stages["0-federate"].outcome.facts
    assert set(facts["by_client"]) == set(SIZES)


def test_the_server_teaches_when_it_alone_has_labels(job_of, run_job, with_server):
    data = with_server(10, dict.fromkeys(SIZES, 0))
    equal = {"name": "fedequal", "unit": "client"}
    ran = run_job(job_of({"peers": 1}, participation=0.25, aggregator=equal), data)
    for line in ran.lines:
        assert len(line["asked"]) == 2
        assert line["asked"][1] == "server", "the server is in every round, and last as in the job"
        told = line["models"]["global"]["scalars"]
        assert set(told) == {line["asked"][0]}, "the server has no unlabelled pictures"
        assert line["models"]["global"]["weights"] == dict.fromkeys(line["asked"], 0.5)


def test_supervised_rounds_ask_only_clients_with_labels_and_fixmatch_all(
    job_of, run_job, make_job, few_labels, tmp_path
):
    supervised = make_job(federate={"rounds": 1})
    assert run_job(supervised, few_labels, tmp_path / "one").lines[0]["asked"] == ["north", "south", "west"]
    ran = run_job(job_of(rounds=1), few_labels, tmp_path / "two")
    assert ran.lines[0]["asked"] == ["north", "south", "west", "east"]
    assert set(ran.lines[0]["models"]["global"]["scalars"]) == {"north", "south", "east"}


def test_a_client_that_diverges_teaches_nobody(job_of, run_job, few_labels, on_answers):
    def broken(request, answer):
        if (request.ask, answer.client) != ("fit", "south"):
            return answer
        return replace(answer, tensors={name: value * torch.nan for name, value in answer.tensors.items()})

    on_answers(broken)
    job = job_of({"peers": 3}, rounds=2)
    job = job.model_copy(update={"engine": job.engine.model_copy(update={"min_clients": 3})})
    ran = run_job(job, few_labels)
    assert all([failed["client"] for failed in line["failed"]] == ["south"] for line in ran.lines)
    peers = [
        note["peers"] for line in ran.lines[1:] for note in line["models"]["global"]["exchange"].values()
    ]
    assert peers
    assert all("south" not in committee for committee in peers)
    assert "south" not in ran.result.stages["0-federate"].outcome.facts["similarity"]["clients"]


def test_the_best_round_is_kept(job_of, run_job, run_killed, few_labels, tmp_path):
    job = job_of(rounds=5, keep="best", objective={"optimizer": {"name": "adam", "lr": 0.02}})
    ran = run_job(job, few_labels)
    reached = [line["metrics"]["accuracy"] for line in ran.lines]
    kept = ran.result.stages["0-federate"].outcome.facts["kept_round"]
    assert kept == 1 + int(np.argmax(reached))
    assert not (tmp_path / "run" / "checkpoints" / "0-federate" / "best.safetensors").exists()
    resumed = run_killed(job, few_labels)
    assert same(ran.weights(), resumed.weights())
    shorter = job_of(rounds=5, objective={"optimizer": {"name": "adam", "lr": 0.02}})
    last = run_job(shorter, few_labels, tmp_path / "last")
    assert same(ran.weights(), last.weights()) == (kept == 5)


def test_the_best_round_of_what_stays_at_clients_cannot_be_told(job_of, run_job, few_labels, make_job):
    with pytest.raises(JobError, match=r"keep: best cannot tell what .* tensors that stay"):
        run_job(job_of(keep="best", sync={"name": "all", "buffers": "local"}), few_labels)
    with pytest.raises(ValueError, match="keep: best needs evaluate_on"):
        job_of(keep="best", evaluate_on=None)


def test_unseen_clients_are_judged_by_malignancy_and_take_no_part(job_of, run_job, make_dataset, tmp_path):
    data = make_dataset({**SIZES, "far": {"light": (0, 0, 0, 9), "dark": (0, 0, 0, 7)}})
    seen = make_dataset(SIZES)
    data = replace(data, held={**data.held, **seen.held}, unseen=("far",))
    job = job_of(rounds=1)
    ran, without = run_job(job, data), run_job(job, seen, tmp_path / "seen")
    assert same(ran.weights(), without.weights())
    facts = ran.result.stages["0-federate"].outcome.facts
    assert facts["unseen"]["far"]["n"] == 16
    assert set(facts["unseen"]["far"]["by_class"]) == {"benign", "malignant"}
    assert ran.result.summary["test"]["n"] == without.result.summary["test"]["n"]
    assert "far" not in facts["by_client"]
    assert json.dumps(facts)


def test_clients_are_drawn_as_large_as_they_are(job_of, make_job, few_labels, run_job):
    ran = run_job(job_of(rounds=1), few_labels)
    plan = (
        job_of(draw="by-size", participation=0.25)
        .stages[0]
        .plan(replace(ran.result.context, key="0-federate"))
    )
    (track,) = plan.tracks
    assert track.sizes == {"north": 18, "south": 9, "west": 8, "east": 11}
    drawn = [choose_cohort(track, plan, round_) for round_ in range(1, 1001)]
    assert {len(cohort) for cohort in drawn} == {1}
    for name, size in track.sizes.items():
        share = size / 46
        assert sum(cohort == (name,) for cohort in drawn) == pytest.approx(
            1000 * share, abs=4 * np.sqrt(1000 * share * (1 - share))
        )


def test_peers_are_refused_where_no_weights_travel(job_of, run_job, few_labels):
    with pytest.raises(JobError, match="passes weights on, and with sync none no parameter travels"):
        run_job(job_of({"peers": 1}, sync={"name": "none"}), few_labels)
