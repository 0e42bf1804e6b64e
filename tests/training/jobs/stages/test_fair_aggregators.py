"""q-ffl and afl through whole runs, and a stage that keeps the mean of its rounds' models."""

import numpy as np
import pytest
import torch

import training.rounds.client.fit
from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.models import build_model
from training.rounds.server.checkpoint import Checkpoints

QUIET = {"evaluate_on": None}
LIPSCHITZ = 1 / 0.02  # the tiny job's learning rate


def same(left, right):
    return left.keys() == right.keys() and all(left[name].equal(right[name]) for name in left)


def test_with_q_zero_a_round_is_fedequals(make_job, run_job, tmp_path):
    for unit in ("client", "subgroup"):
        models = [
            run_job(
                make_job(federate={**QUIET, "rounds": 1, "aggregator": {**aggregator, "unit": unit}}),
                out=tmp_path / unit / aggregator["name"],
            ).weights()
            for aggregator in ({"name": "q-ffl", "q": 0}, {"name": "fedequal"})
        ]
        assert_close_in_norm(*models, within=1e-6)


def numbers(line):
    return line["models"]["global"]["scalars"]


@pytest.mark.parametrize("q", [1, 5])
def test_q_ffls_rounds_follow_the_formula_from_what_clients_report(make_job, run_job, q):
    aggregator = {"name": "q-ffl", "q": q, "unit": "client"}
    held = {"north": {"light": 13, "dark": 5}, "south": {"dark": 9}, "west": {"light": 4, "undeclared": 3}}
    for line in run_job(make_job(federate={**QUIET, "aggregator": aggregator})).lines:
        told, top, total = numbers(line), {}, 0.0
        for client, by_subgroup in held.items():
            losses = [told[client][f"received_loss/{name}"] for name in by_subgroup]
            loss = np.average(losses, weights=list(by_subgroup.values())) + 1e-10
            change = LIPSCHITZ**2 * told[client]["squared_change"]
            top[client] = LIPSCHITZ * loss**q
            total += q * loss ** (q - 1) * change + top[client]
        expected = {client: value / total for client, value in top.items()}
        assert line["models"]["global"]["weights"] == pytest.approx(expected, rel=1e-9)
        assert 0 < sum(expected.values()) < 1


def test_the_loss_is_of_the_model_that_the_round_before_left(make_job, run_job, dataset, monkeypatch):
    seen = rounds_models(monkeypatch)
    job = make_job(federate={**QUIET, "rounds": 2, "aggregator": {"name": "afl"}})
    told = numbers(run_job(job).lines[1])
    assert told["south"].keys() == {"received_loss/dark"}, "the change is not asked for"
    model = build_model(job.model, 2, seed=99).eval()
    model.load_state_dict(seen[1], strict=False)
    examples = dataset.examples("south", "train")
    pixels = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        scores = torch.log_softmax(model(pixels), dim=1).double().numpy()
    expected = -scores[np.arange(len(examples)), examples.labels].mean()
    assert told["south"]["received_loss/dark"] == pytest.approx(expected, rel=1e-5)


def test_afls_mixture_climbs_from_round_to_round_and_survives_a_kill(make_job, run_job, run_killed):
    job = make_job(federate={**QUIET, "rounds": 3, "aggregator": {"name": "afl", "step_size": 0.4}})
    ran = run_job(job)
    held = {"light": {"north": 13, "west": 4}, "dark": {"north": 5, "south": 9}, "undeclared": {"west": 3}}
    aggregation = dict.fromkeys(held, 1 / 3)
    for line in ran.lines:
        weights = dict.fromkeys(("north", "south", "west"), 0.0)
        for name, by_client in held.items():
            for client, n in by_client.items():
                weights[client] += aggregation[name] * n / sum(by_client.values())
        assert line["models"]["global"]["weights"] == pytest.approx(weights, rel=1e-9)
        for name, by_client in held.items():
            losses = [numbers(line)[client][f"received_loss/{name}"] for client in by_client]
            aggregation[name] += 0.4 * np.average(losses, weights=list(by_client.values()))
        excess = (sum(aggregation.values()) - 1) / 3
        aggregation = {name: share - excess for name, share in aggregation.items()}
        assert min(aggregation.values()) > 0, "no corner of the simplex in this test"
        server = {name.removeprefix("lambda/"): value for name, value in line["server"]["global"].items()}
        assert server == pytest.approx(aggregation, rel=1e-9)
    assert max(aggregation.values()) > 1 / 3 + 1e-3
    resumed = run_killed(job)
    assert same(ran.weights(), resumed.weights())
    assert [line["server"] for line in resumed.lines] == [line["server"] for line in ran.lines]


def rounds_models(monkeypatch):
    """The models of all rounds, as they are saved."""
    seen, save = {}, Checkpoints.save

    def save_and_look(self, checkpoint):
        prefix = "global/weights/"
        seen[checkpoint.round] = {
            name.removeprefix(prefix): value.clone()
            for name, value in checkpoint.tensors.items()
            if name.startswith(prefix)
        }
        save(self, checkpoint)

    monkeypatch.setattr(Checkpoints, "save", save_and_look)
    return seen


def test_the_mean_of_all_rounds_is_kept(make_job, run_job, monkeypatch, tmp_path):
    seen = rounds_models(monkeypatch)
    ran = run_job(make_job(federate={**QUIET, "rounds": 4, "keep": "average"}))
    weights = ran.weights()
    for name, value in weights.items():
        expected = np.mean([seen[round_][name].numpy().astype(float) for round_ in (1, 2, 3, 4)], axis=0)
        assert_close_in_norm(value, expected, 1e-6, name)
    assert any(name.endswith("running_var") for name in weights)
    assert not same(weights, seen[4])
    assert not list((tmp_path / "run" / "checkpoints" / "0-federate").glob("sum-*"))
    last = run_job(make_job(federate={**QUIET, "rounds": 4}), out=tmp_path / "last").weights()
    assert same(last, seen[4]), "what is kept does not change the rounds"


def test_the_mean_of_what_stays_at_clients_cannot_be_told(make_job, run_job):
    with pytest.raises(JobError, match=r"keep: average cannot tell what .* tensors .* were in each round"):
        run_job(make_job(federate={"keep": "average", "sync": {"name": "all", "buffers": "local"}}))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"received_loss/dark": float("nan")}, "south reports {'received_loss/dark': nan}: not a finite"),
        (
            {"received_loss/dark": -1.0},
            "south reports {'received_loss/dark': -1.0}; expected nothing below 0",
        ),
    ],
)
@pytest.mark.parametrize("name", ["q-ffl", "afl"])
def test_a_client_without_a_loss_that_can_be_used_is_left_out_of_the_round(
    make_job, run_job, monkeypatch, name, sent, reason
):
    real = training.rounds.client.fit.received_losses
    monkeypatch.setattr(
        training.rounds.client.fit,
        "received_losses",
        lambda local_model, work: sent if work.client == "south" else real(local_model, work),
    )
    aggregator = {"name": name, "unit": "client"}
    job = make_job(federate={**QUIET, "rounds": 1, "aggregator": aggregator}, engine={"min_clients": 2})
    [line] = run_job(job).lines
    [failed] = line["failed"]
    assert failed["client"] == "south"
    assert reason in failed["reason"]
    assert line["answered"] == ["north", "west"]
    if name == "afl":
        assert line["models"]["global"]["weights"] == pytest.approx({"north": 0.5, "west": 0.5})
        assert line["server"]["global"]["lambda/south"] == 1 / 3
