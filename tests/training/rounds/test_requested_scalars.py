"""Fit metrics that a client computes for an aggregator that requests them, and their checks at the server."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.sync import SyncAll, SyncExcept
from training.data.dataset import Examples
from training.errors import MessageError
from training.messages.message import Broadcast, check_update, reply
from training.models import build_model
from training.rounds.client.fit import fit
from training.rounds.requested_scalars import check_requested, report_of, squared_change

ALL = SyncAll()
BOTH = frozenset({RECEIVED_LOSSES, SQUARED_CHANGE})
OBJECTIVE = Supervised(
    epochs=2,
    batch_size=6,
    optimizer={"name": "adam", "lr": 0.01},
    augment={"flip": True},
    class_weights="inverse-frequency",
)
ASKED = Broadcast("north", "0-federate", 1, "fit")


@pytest.fixture
def half_labelled(dataset):
    """Every fourth training picture of north has no label."""
    held = dict(dataset.held)
    examples = held["north", "train"]
    labels = np.where(np.arange(len(examples)) % 4 == 1, -1, examples.labels)
    held["north", "train"] = Examples(
        examples.images, examples.rows, labels, examples.subgroups, examples.lesions
    )
    return replace(dataset, held=held)


def trained(client, needs, sync=ALL):
    """The received weights, and the update of one round."""
    received = client.local_model.take(client.local_model.names)
    broadcast = Broadcast(client.id, "0-federate", 1, "fit", tensors=received)
    return received, fit(broadcast, client, OBJECTIVE, sync, rounds=2, subgroup=None, needs=needs)


def test_the_received_models_loss_is_of_all_labelled_pictures_by_subgroup(
    make_client, make_job, half_labelled
):
    _, update = trained(make_client(data=half_labelled), BOTH)
    model = build_model(make_job().model, 2, seed=1).eval()
    examples = half_labelled.examples("north", "train")
    pixels = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        scores = torch.log_softmax(model(pixels), dim=1).double().numpy()
    for place, name in enumerate(("light", "dark")):
        mine = (examples.subgroups == place) & (examples.labels >= 0)
        assert 0 < mine.sum() < (examples.subgroups == place).sum()
        expected = -np.mean([scores[row, examples.labels[row]] for row in np.flatnonzero(mine)])
        assert update.scalars[f"received_loss/{name}"] == pytest.approx(expected, rel=1e-5)
        assert update.losses[name] != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sync", [SyncAll(), SyncExcept(groups=("norm",)), SyncAll(buffers="local")])
def test_the_change_is_of_the_parameters_that_travel_and_of_no_statistics(make_client, sync):
    client = make_client()
    received, update = trained(client, BOTH, sync)
    parameters = {name for name, _ in client.local_model.model.named_parameters()}
    expected = 0.0
    for name in parameters & update.tensors.keys():
        difference = update.tensors[name].numpy().astype(float) - received[name].numpy().astype(float)
        expected += (difference**2).sum()
    assert update.scalars["squared_change"] == pytest.approx(expected, rel=1e-12)
    everything = sum(float((update.tensors[name] - received[name]).square().sum()) for name in update.tensors)
    kept_apart = isinstance(sync, SyncExcept) or sync.buffers == "local"
    assert (everything == pytest.approx(expected, rel=1e-6)) == kept_apart


def test_the_change_is_from_what_arrived_and_not_from_what_a_client_kept():
    arrived, sent = (
        {"w": torch.tensor([1.0, 2.0])},
        {"w": torch.tensor([1.5, 0.0]), "statistic": torch.ones(1)},
    )
    assert squared_change(arrived, sent, ["w", "of no other client"]) == {"squared_change": 0.25 + 4.0}


def test_being_asked_changes_nothing_of_what_is_trained(make_client, make_job, half_labelled):
    job = make_job(model={"options": {"drop_rate": 0.5}})
    quiet, told = make_client(data=half_labelled, job=job), make_client(data=half_labelled, job=job)
    _, plain = trained(quiet, frozenset())
    _, asked = trained(told, BOTH)
    assert asked.tensors.keys() == plain.tensors.keys()
    assert all(asked.tensors[name].equal(value) for name, value in plain.tensors.items())
    assert asked.losses == plain.losses
    assert plain.scalars == {}
    assert asked.scalars.keys() == {"received_loss/light", "received_loss/dark", "squared_change"}


GOOD = reply(
    ASKED,
    num_examples={"light": 3, "dark": 2, "medium": 0},
    scalars={"received_loss/light": 0.5, "received_loss/dark": 0.0, "squared_change": 2.0, "other": -1.0},
)


def without(name):
    return replace(GOOD, scalars={key: value for key, value in GOOD.scalars.items() if key != name})


def test_what_is_missing_is_refused_where_it_is_needed():
    name = "squared_change"
    with pytest.raises(MessageError, match=f"north does not report {name}, which the aggregator needs"):
        check_requested(without(name), BOTH)
    check_requested(without(name), frozenset({RECEIVED_LOSSES}))


def test_a_loss_may_be_missing_since_its_client_alone_knows_its_patients():
    check_requested(without("received_loss/dark"), BOTH)


@pytest.mark.parametrize(
    ("name", "need"), [("received_loss/dark", RECEIVED_LOSSES), ("squared_change", SQUARED_CHANGE)]
)
def test_what_is_below_zero_is_refused_where_it_is_needed(name, need):
    below = replace(GOOD, scalars={**GOOD.scalars, name: -0.5})
    with pytest.raises(MessageError, match=rf"north reports \{{'{name}': -0\.5\}}; expected nothing below 0"):
        check_requested(below, frozenset({need}))
    check_requested(below, BOTH - {need})


def test_the_loss_of_few_pictures_is_neither_disclosed_nor_asked_for(make_client, dataset):
    """Of a single picture it would be what the model answers for it."""
    held = dict(dataset.held)
    examples = held["north", "train"]
    few = (examples.subgroups == 1) & (np.cumsum(examples.subgroups == 1) <= 2)
    held["north", "train"] = examples.where((examples.subgroups == 0) | few)
    client = replace(make_client(data=replace(dataset, held=held)), min_count=3)
    _, update = trained(client, BOTH)
    assert update.num_examples["dark"] == 2
    assert "received_loss/light" in update.scalars
    assert "received_loss/dark" not in update.scalars
    check_requested(update, BOTH)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_received_loss_that_is_not_finite_is_refused(value):
    broken = replace(GOOD, scalars={**GOOD.scalars, "received_loss/dark": value})
    with pytest.raises(MessageError, match=r"north reports .*received_loss/dark.*: not a finite number"):
        check_update(broken, ASKED)


def test_an_update_of_a_client_that_was_not_asked_says_nothing():
    report = report_of(reply(ASKED, num_examples={"light": 3}, scalars={"kept": 0.25}))
    assert (report.received_losses, report.squared_change) == ({}, None)
