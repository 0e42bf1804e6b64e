"""Masks, noise, 8 bits, hostile answers and a dismissal over real processes."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.loopback.federated import ROOT
from tests.clients.node.federated import HOSPITALS, MASKS, alike, data_of, running, weights
from training.engines.nvflare.payload import read_payload
from training.engines.nvflare.wire import AnswerHeader
from training.federation.canary import CANARY
from training.updates.secure_aggregation.aggregation import tolerance
from training.updates.secure_aggregation.messages import KEYS, LAYOUT, QUESTIONS, SIGNATURE
from training.updates.settings import SecureAggregationConfig

pytestmark = pytest.mark.long
QUICK = {"silence": 20}
FLOAT32 = 2 * 4 * 2.0**-24  # a product and a sum of each of four clients are rounded, or both at once


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with running(tmp_path_factory.mktemp("federated")) as made:
        yield made


@pytest.fixture
def job(tiny):
    """`job(name, names=HOSPITALS, rounds=1, **blocks)`: a job of these hospitals' manifests."""

    def build(name, names=HOSPITALS, **changes):
        stage = {**tiny["stages"][0], **changes.pop("federate", {})}
        return {
            **tiny,
            "name": name,
            "data": data_of(names),
            "stages": [stage],
            **changes,
        }

    return build


@pytest.fixture
def here(net):
    """`here(job)`: the same on one machine; gives its folder."""

    def run(job):
        path = net.folder / f"{job['name']}-here.json"
        path.write_text(json.dumps(job))
        ended = net.run(path, net.folder / "here" / job["name"])
        assert ended.returncode == 0, ended.stderr
        return net.folder / "here" / job["name"]

    return run


def lines(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_near(there, here, clients, stayed=1.0, stage="0-federate"):
    """Weights of both, to what docs/privacy.md states for sums under masks."""
    masked, plain = (
        load_file(folder / "checkpoints" / stage / "outcome.safetensors") for folder in (there, here)
    )
    compared = [name for name, value in plain.items() if value.is_floating_point()]
    assert len(compared) >= 20
    for name in compared:
        largest = float(plain[name].abs().max())
        allowed = tolerance(clients, SecureAggregationConfig(), 2 * largest, stayed) + largest * FLOAT32
        torch.testing.assert_close(masked[name], plain[name], rtol=0, atol=allowed)


def test_masked_weights_are_the_plain_ones_and_the_server_hears_of_no_hospital_alone(net, job, here):
    changes = {"federate": {"rounds": 1, "aggregator": {"name": "fedauto"}}}
    heard = net.deeds / "wire"
    heard.mkdir()
    ended, _ = net.there(job("masked", privacy=MASKS, **changes))
    heard.rename(net.folder / "heard")
    assert ended.returncode == 0, ended.stderr
    assert_near(net.results("masked"), here(job("open", **changes)), clients=4)
    answers = [
        (
            AnswerHeader.model_validate_json(path.read_text()),
            read_payload(path.with_suffix(".body").read_bytes()),
        )
        for path in (net.folder / "heard").glob("*.json")
    ]
    assert {(header.client, header.ask) for header, _ in answers} >= {
        (name, ask) for name in HOSPITALS for ask in ("fit", "evaluate", "test", *QUESTIONS)
    }
    for header, tensors in answers:
        assert not any(tensor.is_floating_point() for tensor in tensors.values())
        if header.ask not in ("census", *QUESTIONS):
            assert set(tensors) == (set() if header.ask == CANARY else {KEYS, LAYOUT, SIGNATURE})


def test_a_node_that_is_killed_after_the_shares_is_recovered_from_the_sum(net, job, here):
    """It is back for the last test: the run is taken up with it, by itself."""
    changes = {"federate": {"rounds": 1, "evaluate_on": None}}
    (net.deeds / "east masked 1 die").touch()
    engine = {"min_clients": 3, "network": QUICK}
    ended, out = net.there(job("recovered", privacy=MASKS, engine=engine, **changes))
    assert ended.returncode == 0, ended.stderr
    assert not list(net.deeds.glob("east*"))
    [line] = lines(out)
    stayed = [name for name in HOSPITALS if name != "east"]
    assert line["answered"] == stayed
    assert "left the secure sum at `masked`" in json.dumps(line["failed"])
    pictures = {name: len((net.folder / f"{name}.csv").read_text().splitlines()) - 1 for name in HOSPITALS}
    share = 1 - pictures["east"] / sum(pictures.values())
    alone = here(job("three", stayed, **changes))
    # Split by lesion, a hospital's share of the training pictures is not quite its share of all.
    assert_near(net.results("recovered"), alone, clients=3, stayed=0.9 * share)


def test_8_bits_are_those_of_one_machine_although_a_process_was_killed(net, job, here):
    changes = {"federate": {"rounds": 3, "evaluate_on": "validation"}}
    packed = job("packed", compression={"up": "8-bit", "exact_below": 100}, **changes)
    (net.deeds / "south fit 2 crash").touch()
    ended, out = net.there(packed)
    assert ended.returncode == 0, ended.stderr
    assert not list(net.deeds.glob("south*"))
    assert "as it does when a hospital's process ends; it is taken up again" in ended.stderr
    near = here(packed)
    assert weights(net.results("packed")) == weights(near)
    assert [alike(line) for line in lines(out)] == [alike(line) for line in lines(near)]


def test_hostile_answers_are_refused_and_named_and_the_run_goes_on(net, job):
    deeds = {
        2: ("nan", "with values that are not finite"),
        3: ("shapes", "; expected ("),
        4: ("hundredfold", "half of the clients moved by"),
        5: ("replay", "south answered another question: number"),
    }
    for round_, (deed, _) in deeds.items():
        (net.deeds / f"south fit {round_} {deed}").touch()
    ended, out = net.there(job("hostile", federate={"rounds": 6}, engine={"min_clients": 3}))
    assert ended.returncode == 0, ended.stderr
    told = lines(out)
    assert [len(line["answered"]) for line in told] == [4, 3, 3, 3, 3, 4]
    for round_, (_, reason) in deeds.items():
        [failed] = told[round_ - 1]["failed"]
        assert failed["client"] == "south"
        assert reason in failed["reason"]
    assert "south did not answer 4 of the 6 rounds" in (out / "report.html").read_text()


def test_noise_under_masks_is_accounted_for(net, job):
    level = {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5, "noise": "together"}
    model = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
    ended, out = net.there(
        job(
            "noisy",
            model=model,
            privacy={**MASKS, "client_level": level},
            federate={"rounds": 2, "aggregator": {"name": "fedequal"}},
        )
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads((out / "summary.json").read_text())["privacy"]["client_level"]
    assert told["epsilon"] > 0
    scalars = lines(out)[-1]["models"]["global"]["scalars"]
    assert {name: each["private_releases"] for name, each in scalars.items()} == dict.fromkeys(HOSPITALS, 2.0)


def until(condition, seconds=900):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def test_a_hospital_that_never_returns_is_dismissed(net, job):
    left = job("left", federate={"rounds": 1}, engine={"network": QUICK})
    path, out = net.folder / "left.json", net.folder / "there" / "left"
    path.write_text(json.dumps(left))
    (net.deeds / "east test 0 die").touch()
    options = ("--engine", "nvflare", "--kit", str(net.folder / "kits" / "admin"), "--out", str(out))
    with (net.folder / "left.log").open("w") as log:
        run = subprocess.Popen(
            [sys.executable, "training/run.py", str(path), *options],
            env=net.environment,
            cwd=ROOT,
            stderr=log,
        )
        try:
            until(lambda: not list(net.deeds.glob("east*")))
            net.nodes["east"].send_signal(signal.SIGTERM)  # before it starts again
            net.nodes["east"].wait(60)
            until(lambda: "waits for east" in (net.folder / "left.log").read_text())
        finally:
            run.kill()
            run.wait()
    try:
        ended, _ = net.there(left, "--resume", "--without", "east")
    finally:
        net.start("east")
    assert ended.returncode == 0, ended.stderr
    assert "east dismissed" in ended.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary["dismissed"]) == ["east"]
    assert "east was dismissed from the run on" in (out / "report.html").read_text()
    assert [line["answered"] for line in lines(out)] == [list(HOSPITALS)]
    assert summary["test"]["n"] > 0
