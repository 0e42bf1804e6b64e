"""Masks, noise and compression at nodes: the same sums as on one machine, whatever the nodes live through."""

import json

import pytest
import torch

from training.engines.calls import StoppedError
from training.privacy.secagg.messages import CONFIRM, KEYS, LAYOUT, MASKED, REQUESTS, UNMASK
from training.privacy.secagg.sums import tolerance

MASKS = {"min_count": 1, "secure_aggregation": {"fewest": 3}}
PACKED = {"up": "8-bit", "down": "half", "exact_below": 100}
NAMES = ["north", "south", "east", "west"]
FLOAT32 = 2 * 4 * 2.0**-24  # a product and a sum of each of four clients are rounded, or both at once


def weights(result):
    return result.stages["0-federate"].outcome.models["global"]


def equal(one, other):
    return all(torch.equal(weights(one)[name], value) for name, value in weights(other).items())


def assert_near(masked, plain, job):
    for name, value in plain.items():
        largest = float(value.abs().max())
        allowed = tolerance(4, job.privacy.secure_aggregation, 2 * largest) + largest * FLOAT32
        torch.testing.assert_close(masked[name], value, rtol=0, atol=allowed)


def asks(header, ask, round_=None, of=None):
    read = json.loads(header)
    return (
        read["ask"] == ask
        and round_ in (None, read["round"])
        and of in (None, read.get("options", {}).get("of"))
    )


@pytest.mark.parametrize("aggregator", [pytest.param("fedavg", marks=pytest.mark.long), "fedauto"])
def test_masked_sums_over_a_network_are_the_plain_ones_of_one_machine(own_job, net, here, heard, aggregator):
    changes = {"rounds": 1, "aggregator": {"name": aggregator}}
    plain = here(own_job(federate=changes))
    job = own_job(federate=changes, privacy=MASKS)
    there = net(job)
    answers = heard(there)
    assert_near(weights(there.run()), weights(plain), job)
    assert {header.ask for header, _ in answers} >= {"fit", "evaluate", "test", *REQUESTS} - {CONFIRM}
    for header, tensors in answers:
        assert not any(tensor.is_floating_point() for tensor in tensors.values())
        if header.ask not in ("census", *REQUESTS):
            assert set(tensors) == {KEYS, LAYOUT}


def test_who_did_not_train_in_a_round_has_its_counts_in_the_masked_sum(own_job, net, here):
    """What waits for a sum of counts is of no training, and must not be forgotten with one."""
    changes = {"rounds": 3, "participation": 0.75}
    job = own_job(federate=changes, privacy=MASKS)
    there = net(job)
    far = there.run()
    assert any(len(line["asked"]) == 3 for line in there.metrics())
    assert [line["failed"] for line in there.metrics()] == [[], [], []]
    assert equal(far, here(job))


@pytest.mark.parametrize("ask", [MASKED, pytest.param(UNMASK, marks=pytest.mark.long)])
def test_a_node_that_goes_between_the_questions_of_a_sum(own_job, net, ask):
    changes = {"rounds": 1, "evaluate_on": None}
    job = own_job(federate=changes, privacy=MASKS, engine={"min_clients": 3})
    there = net(job)
    east = there.channels["east"]

    def leave(header):
        if asks(header, ask, of="fit"):
            east.cut = "the node was killed"

    def back(header):
        if asks(header, "test"):
            east.cut = None

    east.before_ask, there.channels["north"].before_ask = leave, back
    there.run()
    [line] = there.metrics()
    assert f"left the secure sum at `{ask}`" in json.dumps(line["failed"])
    stayed = [name for name in NAMES if name != "east" or ask == UNMASK]
    assert sorted(line["models"]["global"]["weights"]) == sorted(stayed)


def test_a_sum_waits_for_as_many_as_hide_each_other(own_job, net, in_thread, wait_until):
    """A round may go on without two of four; a sum of two would tell too much, and is waited for."""
    job = own_job(federate={"rounds": 1}, privacy=MASKS, engine={"min_clients": 2})
    there = net(job)
    for name in ("east", "west"):
        line = there.channels[name]

        def leave(header, line=line):
            if asks(header, MASKED, of="fit") and not there.metrics():
                line.cut = "the cable is out"

        line.before_ask = leave
    in_thread(there.run)
    wait_until(lambda: "masked waits for" in there.progress.getvalue())
    for name in ("east", "west"):
        there.channels[name].before_ask = lambda header: None
        there.channels[name].cut = None
    wait_until(lambda: there.run_folder.path.joinpath("summary.json").exists())
    [line] = there.metrics()
    assert len(line["models"]["global"]["weights"]) >= 3


def interrupted(there, ask, round_, name="east"):
    """A session in which a node is killed and the run is stopped, and another with all started anew."""
    line, stopped = there.channels[name], []

    def before(header):
        if asks(header, ask, round_):
            line.cut = "killed"
            stopped.append(1)

    line.before_ask = before
    with pytest.raises(StoppedError):
        there.run(stopped=lambda: bool(stopped))
    there.connect(*NAMES)
    return there.run()


LONG = [pytest.param(ask, marks=pytest.mark.long) for ask in ("fit", "share", "unmask")]


@pytest.mark.parametrize("ask", [*LONG, "masked"])
def test_masks_survive_a_node_that_is_killed(own_job, net, here, ask):
    job = own_job(federate={"rounds": 3}, privacy=MASKS)
    assert equal(interrupted(net(job), ask, 2), here(job))


def test_8_bits_over_a_network_are_those_of_one_machine_after_a_kill_too(own_job, net, here):
    job = own_job(federate={"rounds": 3}, compression=PACKED)
    near = here(job)
    undisturbed = net(job, "undisturbed")
    assert equal(undisturbed.run(), near)
    lines = [line["bytes_up"] for line in undisturbed.metrics()]
    assert len(set(lines)) == 1
    assert equal(interrupted(net(job, "killed"), "evaluate", 2), near)


@pytest.mark.long
def test_noise_and_masks_together_count_every_release_at_the_node(own_job, net):
    level = {"clip": 1.0, "noise_multiplier": 0.5, "delta": 1e-5, "noise": "together"}
    model = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
    job = own_job(
        model=model,
        federate={"rounds": 2, "aggregator": {"name": "fedequal"}},
        privacy={**MASKS, "client_level": level},
    )
    there = net(job)
    result = interrupted(there, "masked", 2)
    told = [line["models"]["global"]["scalars"] for line in there.metrics()]
    assert [sorted(scalars) for scalars in told] == [sorted(NAMES)] * 2
    # Round 2 was done twice by all: what was released before the kill counts.
    assert [{s["private_releases"] for s in scalars.values()} for scalars in told] == [{1.0}, {3.0}]
    assert result.summary["privacy"]["client_level"]["epsilon"] > 0
    assert all(line["loss"] is None for line in there.metrics())
