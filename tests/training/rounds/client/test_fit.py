"""A client's round against a loop written by hand in plain torch, on the same batches.

Fit metrics that a client computes for an aggregator that requests them, and their checks at the server.
"""

from dataclasses import replace
from math import cos, pi

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.closeness import assert_close_in_norm
from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE
from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.epochs import epoch_order, in_batches
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.sync import SyncAll, SyncExcept
from training.data.dataset import Examples
from training.errors import DataError, MessageError
from training.messages import Broadcast, reply
from training.models import build_model
from training.models.classifier import float_state
from training.rounds.client.fit import fit, train_locally
from training.rounds.server.validation import check_requested

ROUNDS = 3


def supervised(**settings):
    return Supervised.model_validate(
        {"sampling": "uniform", "batch_size": 6, "augment": {"flip": False}, **settings}
    )


def work(client, round_=1, examples=None):
    """A round as a stage would prepare it."""
    return LocalRound(
        client=client.id,
        stage="0-federate",
        track="global",
        round=round_,
        rounds=ROUNDS,
        seed=client.seed,
        examples=client.examples("train") if examples is None else examples,
        subgroups=client.subgroups,
        received={},
        kept={},
        device=client.local_model.device,
    )


def batches(client, round_, epoch, batch_size=6):
    """Pictures and labels of one epoch as torch takes them."""
    examples = client.examples("train")
    random = work(client, round_).numpy_generator(f"order {epoch}")
    for positions in in_batches(epoch_order(examples.labels, "uniform", random), batch_size):
        images = torch.from_numpy(examples.images[examples.rows[positions]]).permute(0, 3, 1, 2) / 255
        yield images, torch.from_numpy(examples.labels[positions])


def fresh_model(make_job):
    return build_model(make_job().model, 2, seed=1).to(memory_format=torch.channels_last).train()


def same_bytes(model, other):
    """Whether two models hold the very same floating-point state."""
    first, second = float_state(model), float_state(other)
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_round_is_plain_torch_to_the_byte(make_client, make_job):
    client, model = make_client(), fresh_model(make_job)
    train_locally(
        client.local_model, supervised(epochs=2, optimizer={"name": "sgd", "lr": 0.05}), work(client), {}
    )

    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, fused=True)
    for epoch in range(2):
        for images, labels in batches(client, 1, epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    assert same_bytes(client.local_model.model, model)


def test_a_round_on_small_pictures_is_one_on_pictures_that_were_scaled_down(make_client, make_job):
    client, model = make_client(), fresh_model(make_job)
    small = replace(work(client), image_size=12)
    train_locally(client.local_model, supervised(optimizer={"name": "sgd", "lr": 0.05}), small, {})

    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, fused=True)
    for images, labels in batches(client, 1, 0):
        optimizer.zero_grad()
        scaled = F.interpolate(images, size=(12, 12), mode="bilinear", antialias=True)
        F.cross_entropy(model(scaled), labels).backward()
        optimizer.step()
    assert same_bytes(client.local_model.model, model)


OPTIMIZERS = {
    "sgd": ({"name": "sgd", "lr": 0.05}, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, fused=True)),
    "adam": ({"name": "adam", "lr": 0.01}, lambda p: torch.optim.Adam(p, 0.01, fused=True)),
    "adamw": (
        {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1, fused=True),
    ),
}


def by_hand(model, client, make_optimizer, lr, *, keep):
    """Two rounds of two epochs each with a cosine over three rounds; the optimizer kept or made anew."""
    optimizer = make_optimizer(model.parameters())
    for round_ in (1, 2):
        if not keep:
            optimizer = make_optimizer(model.parameters())
        for epoch in range(2):
            step = 2 * (round_ - 1) + epoch
            optimizer.param_groups[0]["lr"] = lr * 0.5 * (1 + cos(pi * (step / 2) / ROUNDS))
            for images, labels in batches(client, round_, epoch):
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                optimizer.step()


def two_rounds(client, objective):
    """Two rounds through the request `fit`, the optimizer's state in the client's store."""
    weights = client.local_model.take(client.local_model.names)
    for round_ in (1, 2):
        broadcast = Broadcast(client.id, "0-federate", round_, "fit", tensors=weights)
        update = fit(broadcast, client, objective, SyncAll(), rounds=ROUNDS, subgroup=None)
        weights = update.tensors


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_kept_optimizer_goes_on_as_if_there_were_no_rounds(make_client, make_job, name):
    settings, make_optimizer = OPTIMIZERS[name]
    schedule = {"name": "cosine"}
    client, model = make_client(), fresh_model(make_job)
    two_rounds(client, supervised(epochs=2, optimizer={**settings, "state": "keep"}, schedule=schedule))
    by_hand(model, client, make_optimizer, settings["lr"], keep=True)
    assert same_bytes(client.local_model.model, model)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_reset_optimizer_starts_every_round_afresh(make_client, make_job, name):
    settings, make_optimizer = OPTIMIZERS[name]
    schedule = {"name": "cosine"}
    client, reset, kept = make_client(), fresh_model(make_job), fresh_model(make_job)
    two_rounds(client, supervised(epochs=2, optimizer={**settings, "state": "reset"}, schedule=schedule))
    by_hand(reset, client, make_optimizer, settings["lr"], keep=False)
    by_hand(kept, client, make_optimizer, settings["lr"], keep=True)
    assert same_bytes(client.local_model.model, reset)
    assert not same_bytes(client.local_model.model, kept)


def test_a_client_leaves_nothing_in_the_local_model_for_the_next(make_client):
    objective = supervised(optimizer={"name": "adam", "lr": 0.01})
    alone, after = make_client("south"), make_client("south")
    start = alone.local_model.take(alone.local_model.names)

    def train(client, local_model):
        local_model.load(start)
        train_locally(local_model, objective, work(client), {})

    train(alone, alone.local_model)
    train(make_client("north"), after.local_model)
    train(after, after.local_model)
    assert same_bytes(alone.local_model.model, after.local_model.model)


def test_a_round_with_a_proximal_term_minimises_it_too(make_client, make_job):
    client, model, mu = make_client(), fresh_model(make_job), 5.0
    train_locally(
        client.local_model, supervised(mu=mu, optimizer={"name": "sgd", "lr": 0.05}), work(client), {}
    )

    start = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, fused=True)
    for images, labels in batches(client, 1, 0):
        optimizer.zero_grad()
        distance = sum((p - s).square().sum() for p, s in zip(model.parameters(), start, strict=True))
        (F.cross_entropy(model(images), labels) + mu / 2 * distance).backward()
        optimizer.step()
    for found, expected in zip(client.local_model.model.parameters(), model.parameters(), strict=True):
        assert_close_in_norm(found, expected, 1e-4)


def test_a_step_is_no_longer_than_the_clipped_gradient_allows(make_client):
    client = make_client()
    names = tuple(name for name, _ in client.local_model.model.named_parameters())
    start = client.local_model.take(names)
    optimizer = {"name": "sgd", "lr": 0.5, "momentum": 0.0}
    train_locally(
        client.local_model, supervised(batch_size=64, clip_norm=0.01, optimizer=optimizer), work(client), {}
    )
    end = client.local_model.take(names)
    length = sum(float((end[name] - start[name]).square().sum()) for name in names) ** 0.5
    assert length == pytest.approx(0.5 * 0.01, rel=1e-3)


@pytest.mark.parametrize("labels", [[1], [0, -1, -1], [-1, -1]])
def test_fewer_than_two_labelled_pictures_cannot_be_trained_on(make_client, labels):
    client, n = make_client(), len(labels)
    whole = client.examples("train")
    few = Examples(whole.images, whole.rows[:n], np.array(labels), whole.subgroups[:n], whole.lesions[:n])
    with pytest.raises(DataError, match="north has fewer than two pictures to train on with supervised"):
        train_locally(client.local_model, supervised(), work(client, examples=few), {})


def fit_once(client, round_, objective, weights):
    broadcast = Broadcast(client.id, "0-federate", round_, "fit", tensors=weights)
    return fit(broadcast, client, objective, SyncAll(buffers="local"), rounds=ROUNDS, subgroup=None)


def test_a_client_that_diverges_says_so_and_keeps_what_it_had(make_client):
    client = make_client()
    weights = client.local_model.take(client.local_model.names)
    fit_once(client, 1, supervised(optimizer={"name": "sgd", "lr": 0.05}), weights)
    before = client.store.load("north", "0-federate/global", 3).tensors
    with pytest.raises(DataError, match=r"north diverged in round 2: .* Lower objective.optimizer.lr"):
        fit_once(client, 2, supervised(epochs=2, optimizer={"name": "sgd", "lr": 1e30}), weights)
    after = client.store.load("north", "0-federate/global", 3).tensors
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_client_that_lost_its_store_does_not_train_on_what_another_left_in_the_local_model(make_client):
    client, objective = make_client(), supervised()
    shared = SyncAll(buffers="local").shared(client.local_model.model)
    with pytest.raises(
        DataError, match=r"north no longer has what it kept of the model: \d+ tensors .*store"
    ):
        fit_once(client, 2, objective, client.local_model.take(shared))


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
