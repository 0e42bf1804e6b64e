"""Secure aggregation in real rounds: the same model as without masks, and only sums at the coordinator."""

from dataclasses import replace

import pytest
import torch

from clients.store import ClientStore
from training.errors import QuorumError
from training.jobs.client_app import ClientApp
from training.messages import Broadcast, Failure
from training.privacy.secagg.messages import CONFIRM, MASKED, REQUESTS, UNMASK, WITHHELD
from training.privacy.secagg.sums import tolerance

MASKS = {"secure_aggregation": {"fewest": 2, "survivors": 0.5}}
ONE_ROUND = {"rounds": 1}
UNSIGNED = set(REQUESTS) - {CONFIRM}  # of a sum whose clients have no identities
FLOAT32 = 2 * 3 * 2.0**-24  # a product and a sum of each of three clients are rounded, or both at once


@pytest.fixture
def seen(on_answers):
    """Every answer that reaches the coordinator."""
    found = []

    def note(request, answer):
        found.append(replace(answer, tensors=dict(answer.tensors.items())))
        return answer

    on_answers(note)
    return found


def assert_same(masked, plain, job):
    for name, weights in plain.items():
        largest = float(weights.abs().max())
        allowed = tolerance(3, job.privacy.secure_aggregation, 2 * largest) + largest * FLOAT32
        torch.testing.assert_close(masked[name], weights, rtol=0, atol=allowed)


@pytest.mark.parametrize("aggregator", ["fedavg", "fedauto"])
def test_masks_change_a_round_by_no_more_than_is_stated(run_job, make_job, tmp_path, aggregator):
    changes = {**ONE_ROUND, "aggregator": {"name": aggregator}}
    plain = run_job(make_job(federate=changes), out=tmp_path / "plain")
    job = make_job(federate=changes, privacy=MASKS)
    masked = run_job(job, out=tmp_path / "masked")
    assert_same(masked.weights(), plain.weights(), job)
    by_masks, openly = (ran.lines[0]["models"]["global"] for ran in (masked, plain))
    assert by_masks["weights"] == openly["weights"]
    assert by_masks["loss"] == openly["loss"]


def test_counts_are_exact(run_job, make_job, tmp_path):
    # Nothing is learnt, so that both runs count the same model's answers.
    still = {
        **ONE_ROUND,
        "objective": {"optimizer": {"lr": 1e-30, "momentum": 0.0}},
        "sync": {"name": "none"},
    }
    plain = run_job(make_job(federate=still), out=tmp_path / "plain")
    masked = run_job(make_job(federate=still, privacy=MASKS), out=tmp_path / "masked")
    told = {key: value for key, value in plain.result.summary["test"].items() if key != "over_clients"}
    assert {key: masked.result.summary["test"][key] for key in told} == told
    assert masked.lines[0]["by_subgroup"] == plain.lines[0]["by_subgroup"]
    assert "by_client" in plain.result.stages["0-federate"].outcome.facts
    assert "by_client" not in masked.result.stages["0-federate"].outcome.facts


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_coordinator_sees_no_tensor_of_a_client(run_job, make_job, seen, workers):
    run_job(make_job(privacy=MASKS, engine={"workers": workers}))
    assert {update.ask for update in seen} >= {"fit", "evaluate", "test", *UNSIGNED}
    for update in seen:
        if update.ask in ("fit", "evaluate", "test"):
            assert all(name.startswith(WITHHELD) for name in update.tensors)
        assert not any(tensor.is_floating_point() for tensor in update.tensors.values())
        assert update.ask in ("census", *REQUESTS) or set(update.tensors) <= {
            "withheld/keys",
            "withheld/layout",
        }


def test_what_stays_is_averaged_at_the_end_under_masks(run_job, make_job, tmp_path, seen):
    changes = {**ONE_ROUND, "sync": {"name": "except", "groups": ["norm"]}}
    plain = run_job(make_job(federate=changes), out=tmp_path / "plain")
    seen.clear()
    job = make_job(federate=changes, privacy=MASKS)
    assert_same(run_job(job, out=tmp_path / "masked").weights(), plain.weights(), job)
    assert all(
        set(update.tensors) <= {"withheld/keys", "withheld/layout"}
        for update in seen
        if update.ask == "collect"
    )


def test_a_client_that_leaves_while_weights_are_summed(run_job, make_job, on_answers, tmp_path):
    plain = make_job(federate={**ONE_ROUND, "evaluate_on": None}, engine={"min_clients": 2})

    def without(ask):
        def leave(request, answer):
            gone = (request.client, request.ask, request.round) == ("south", ask, 1)
            return Failure("south", request.track, "no heartbeat") if gone else answer

        on_answers(leave)

    without("fit")
    two = run_job(plain, out=tmp_path / "two")
    without(MASKED)
    job = plain.model_copy(update={"privacy": make_job(privacy=MASKS).privacy})
    masked = run_job(job, out=tmp_path / "masked")
    assert_same(masked.weights(), two.weights(), job)
    line = masked.lines[0]
    assert line["answered"] == ["north", "west"]
    assert line["failed"][0]["client"] == "south"
    assert "left the secure sum at `masked`" in line["failed"][0]["reason"]
    weights = line["models"]["global"]["weights"]
    assert weights == pytest.approx(two.lines[0]["models"]["global"]["weights"])

    without(UNMASK)
    with_south = run_job(job, out=tmp_path / "with south")
    assert set(with_south.lines[0]["models"]["global"]["weights"]) == {"north", "south", "west"}


JUDGES = {"light": (0, 5, 5, 5), "dark": (0, 5, 5, 5)}  # a hospital that trains nothing
TRAINER = {"light": (9, 5, 5, 5), "dark": (9, 5, 5, 5)}


@pytest.mark.parametrize(
    ("privacy", "west", "what"),
    [
        ({"secure_aggregation": {"fewest": 4, "counts": False}}, TRAINER, "weights.* 4 or more, .* has 3"),
        ({"secure_aggregation": {"fewest": 3}}, JUDGES, "weights.* 3 or more, .* has 2: north, south"),
        ({"counts": {"masks": True}}, None, "counts.* 3 or more, .* has 2: north, south"),
    ],
)
def test_fewer_hospitals_than_a_sum_is_over_do_not_begin(
    privacy, west, what, run_job, make_job, make_dataset, tmp_path
):
    sites = {"north": TRAINER, "south": TRAINER, **({} if west is None else {"west": west})}
    with pytest.raises(QuorumError, match=f"^{what}"):
        run_job(make_job(privacy=privacy), make_dataset(sites), out=tmp_path / "run")
    assert not list((tmp_path / "run").rglob("round-*"))


def test_a_client_gives_nothing_else_away(make_job, dataset, tmp_path):
    site = ClientApp(make_job(privacy=MASKS), dataset, ClientStore(tmp_path))
    weights = site._local_model.take(site._local_model.names)
    answer = site.answer(
        Broadcast(
            "north",
            "0-federate",
            1,
            "judge",
            tensors=weights,
            options={"split": "train", "subgroups": ["light"]},
        )
    )
    assert isinstance(answer, Failure)
    assert "tensors of one client in the clear" in answer.reason
    open_site = ClientApp(make_job(), dataset, ClientStore(tmp_path))
    refused = open_site.answer(Broadcast("north", "0-federate", 1, MASKED))
    assert isinstance(refused, Failure)
    assert "no privacy.secure_aggregation" in refused.reason


@pytest.mark.long
def test_a_whole_job_under_masks(run_job, make_job, federate_block, tmp_path):
    still = federate_block(
        rounds=1, objective={"optimizer": {"lr": 1e-30, "momentum": 0.0}}, sync={"name": "none"}
    )
    stages = [still, {"stage": "export"}, {"stage": "calibrate", "sensitivity": 0.8}]
    plain = run_job(make_job(stages=stages), out=tmp_path / "plain")
    masked = run_job(make_job(stages=stages, privacy=MASKS), out=tmp_path / "masked")
    one, other = (
        ran.result.stages["2-calibrate"].outcome.facts["models"]["global"] for ran in (plain, masked)
    )
    assert one["temperature"]["value"] == pytest.approx(other["temperature"]["value"], rel=1e-6)
    assert one["conformal"] == other["conformal"]
    assert one["conclusions"] == other["conclusions"]
    assert one["working_point"] == other["working_point"] is not None
