"""Masks and 8 bits over real processes, one of which is killed."""

import json

import pytest
import torch
from safetensors.torch import load_file

from tests.clients.node.federated import HOSPITALS, MASKS, alike, data_of, running, weights
from training.engines.wire import ResponseHeader, read_payload
from training.privacy.secagg.messages import KEYS, LAYOUT, REQUESTS, SIGNATURE
from training.privacy.secagg.sums import tolerance
from training.privacy.settings import SecureAggregationConfig
from training.rounds.requests import CANARY

pytestmark = pytest.mark.long
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


def assert_near(there, here, clients):
    """Weights of both, to what docs/privacy.md states for sums under masks."""
    masked, plain = (
        load_file(folder / "checkpoints" / "0-federate" / "outcome.safetensors") for folder in (there, here)
    )
    compared = [name for name, value in plain.items() if value.is_floating_point()]
    assert len(compared) >= 20
    for name in compared:
        largest = float(plain[name].abs().max())
        allowed = tolerance(clients, SecureAggregationConfig(), 2 * largest) + largest * FLOAT32
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
            ResponseHeader.model_validate_json(path.read_text()),
            read_payload(path.with_suffix(".body").read_bytes()),
        )
        for path in (net.folder / "heard").glob("*.json")
    ]
    assert {(header.client, header.ask) for header, _ in answers} >= {
        (name, ask) for name in HOSPITALS for ask in ("fit", "evaluate", "test", *REQUESTS)
    }
    for header, tensors in answers:
        assert not any(tensor.is_floating_point() for tensor in tensors.values())
        if header.ask not in ("census", *REQUESTS):
            assert set(tensors) == (set() if header.ask == CANARY else {KEYS, LAYOUT, SIGNATURE})


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
