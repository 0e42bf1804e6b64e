import numpy as np
import pytest
import torch

from tests.closeness import assert_close_in_norm
from training.algorithms.aggregators.base import Mixture
from training.messages.message import Update
from training.messages.spool import Spool
from training.rounds.server.aggregation import mix

NAMES = ("weight", "bias")


def update(client, seed):
    rng = np.random.default_rng(seed)
    tensors = {
        name: torch.from_numpy(rng.normal(size=shape).astype(np.float32))
        for name, shape in (("weight", (3, 4)), ("bias", (5,)))
    }
    return Update(client, "0-federate", 1, "fit", tensors=tensors)


UPDATES = [update("a", 1), update("b", 2), update("c", 3)]
PREVIOUS = dict(update("server", 0).tensors) | {"token": torch.tensor([7.0, -1.0])}


def by_hand(weights, previous, name):
    """The weighted sum in double precision."""
    total = previous * PREVIOUS[name].numpy().astype(np.float64)
    for member in UPDATES:
        total = total + weights.get(member.client, 0.0) * member.tensors[name].numpy().astype(np.float64)
    return total


@pytest.mark.parametrize("previous", [0.0, 0.4, -1.5])
def test_the_next_model_is_the_weighted_sum(previous):
    weights = {"a": 0.15, "b": -0.25, "c": 0.6}
    mixed = mix(Mixture(weights, previous), UPDATES, PREVIOUS, NAMES)
    for name in NAMES:
        assert_close_in_norm(mixed[name], by_hand(weights, previous, name), 1e-6, name)


def test_a_client_without_a_weight_does_not_count():
    weights = {"a": 0.5, "c": 0.5}
    mixed = mix(Mixture(weights), UPDATES, PREVIOUS, NAMES)
    assert_close_in_norm(mixed["bias"], by_hand(weights, 0.0, "bias"), 1e-6)


def test_what_does_not_travel_stays_as_it_was():
    mixed = mix(Mixture({"a": 1.0}), UPDATES, PREVIOUS, ("bias",))
    assert mixed["weight"] is PREVIOUS["weight"]
    assert mixed["token"] is PREVIOUS["token"]
    assert torch.equal(mixed["bias"], UPDATES[0].tensors["bias"])


def test_a_weight_of_one_copies_the_client_bytewise():
    mixed = mix(Mixture({"b": 1.0}), UPDATES, PREVIOUS, NAMES)
    assert all(torch.equal(mixed[name], UPDATES[1].tensors[name]) for name in NAMES)


def test_updates_on_disk_give_the_same_bytes(tmp_path):
    spool = Spool(tmp_path / "spool")
    mixture = Mixture({"a": 0.15, "b": 0.25, "c": 0.6})
    here = mix(mixture, UPDATES, PREVIOUS, NAMES)
    there = mix(mixture, [spool.spooled(member) for member in UPDATES], PREVIOUS, NAMES)
    assert all(torch.equal(here[name], there[name]) for name in here)
