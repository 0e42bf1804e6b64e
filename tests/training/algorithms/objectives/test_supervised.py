"""Supervised training against a plain loop of torch, and mixup."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from training.algorithms.objectives.base import Batch
from training.algorithms.objectives.supervised import Supervised, mix
from training.data.cells import Cells, CellWeights
from training.data.dataset import Examples
from training.models import build_model
from training.models.classifier import CaseBatch


@pytest.fixture
def begin(make_job, work_of):
    """Begin west's round (4 light and 3 undeclared pictures); gives the task and its model."""

    def start(objective, examples=None, client="west", round_=1, **work):
        model = build_model(make_job().model, 2, seed=1).train()
        asked = replace(work_of(client, "0-federate", round_, examples), **work)
        return objective.begin(model, asked), model

    return start


def cross_entropy(logits, labels):
    """− log of the softmax at the label, in NumPy."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


@pytest.mark.parametrize("sampling", ["uniform", "class-balanced"])
def test_losses_by_subgroup_are_means_over_the_pictures_drawn_in_the_last_epoch(begin, dataset, sampling):
    task, model = begin(Supervised(batch_size=3, sampling=sampling))
    examples = dataset.examples("west", "train")
    names = np.array(["light", "dark", "undeclared"])[examples.subgroups]
    for epoch in range(2):  # the first is forgotten
        drawn = {"light": [], "undeclared": []}
        for batch in task.batches(epoch):
            mean = task.loss(batch)
            with torch.no_grad():
                logits = model(batch.images).double().numpy()
            losses = cross_entropy(logits, examples.labels[batch.positions])
            assert float(mean.detach()) == pytest.approx(losses.mean(), rel=1e-5)
            for position, loss in zip(batch.positions, losses, strict=True):
                drawn[names[position]].append(loss)
    expected = {name: np.mean(losses) for name, losses in drawn.items() if losses}
    assert task.losses() == pytest.approx(expected, rel=1e-5)


def test_pictures_without_a_label_are_left_out(begin, dataset):
    whole = dataset.examples("north", "train")
    labels = np.where(np.arange(18) % 2 == 0, -1, whole.labels)
    examples = Examples(whole.images, whole.rows, labels, whole.subgroups, whole.lesions)
    task, _ = begin(Supervised(batch_size=4, sampling="uniform", augment={"flip": False}), examples, "north")
    assert task.num_examples() == {"light": 6, "dark": 3}
    images = torch.cat([batch.images for batch in task.batches(0)])
    # Uniform draws each labelled picture once, whatever the order.
    expected = whole.images[1::2].astype(np.float32).transpose(0, 3, 1, 2) / 255
    found = sorted(image.tobytes() for image in images.contiguous().numpy())
    assert found == sorted(np.ascontiguousarray(image).tobytes() for image in expected)


def test_every_epoch_and_round_draws_anew_and_the_same_one_draws_the_same(begin):
    def drawn(round_, epoch):
        task, _ = begin(Supervised(batch_size=7), round_=round_)
        [batch] = task.batches(epoch)
        return batch.positions.tolist(), batch.images.numpy().tobytes()

    assert drawn(1, 0) == drawn(1, 0)
    assert len({str(drawn(round_, epoch)) for round_ in (1, 2) for epoch in (0, 1)}) == 4


def step(task, model, batch):
    """The loss of a batch, and the gradient that it leaves in the head's bias: the mean of p − t."""
    model.zero_grad()
    loss = task.loss(batch)
    loss.backward()
    return float(loss.detach()), model.encoder.get_classifier().bias.grad.double().numpy()


def seen(model, batch):
    """The logits in training mode, as NumPy."""
    with torch.no_grad():
        return model(batch.images).double().numpy()


@pytest.fixture
def begin_drawn(begin):
    """As `begin`, with a head that was drawn: one of zeros finds all classes alike."""

    def start(*given, **named):
        task, model = begin(*given, **named)
        with torch.no_grad():
            torch.nn.init.normal_(model.encoder.get_classifier().weight, generator=torch.Generator())
        return task, model

    return start


def test_a_smoothed_label_is_spread_over_all_classes_and_the_loss_told_is_that_of_the_label(
    begin_drawn, dataset
):
    examples = dataset.examples("west", "train")
    task, model = begin_drawn(Supervised(batch_size=7, sampling="uniform", label_smoothing=0.3))
    [batch] = task.batches(0)
    logits, labels = seen(model, batch), examples.labels[batch.positions]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    told = np.full((7, 2), 0.15)
    told[np.arange(7), labels] += 0.7
    loss, gradient = step(task, model, batch)
    assert loss == pytest.approx(-(told * logs).sum(axis=1).mean(), rel=1e-5)
    np.testing.assert_allclose(gradient, (np.exp(logs) - told).mean(axis=0), atol=1e-6)
    of_labels = cross_entropy(logits, labels)
    assert loss != pytest.approx(of_labels.mean(), rel=1e-3)
    light = examples.subgroups[batch.positions] == 0
    expected = {"light": of_labels[light].mean(), "undeclared": of_labels[~light].mean()}
    assert task.losses() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_rare_class_weighs_more_where_the_job_says_so(begin_drawn, dataset, smoothing):
    examples = dataset.examples("west", "train")
    examples = replace(examples, labels=np.array([0, 0, 0, 0, 0, 1, 0]))
    settings = {"batch_size": 7, "sampling": "uniform", "label_smoothing": smoothing}
    task, model = begin_drawn(Supervised(**settings, class_weights="inverse-frequency"), examples)
    [batch] = task.batches(0)
    labels = examples.labels[batch.positions]
    logits = seen(model, batch)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    weights = np.array([7 / (2 * 6), 7 / (2 * 1)])  # n / (K n_k)
    told = np.full((7, 2), smoothing / 2)
    told[np.arange(7), labels] += 1 - smoothing
    loss, gradient = step(task, model, batch)
    assert loss == pytest.approx(-(told * weights * logs).sum(axis=1).mean(), rel=1e-5)
    pull = (told * weights).sum(axis=1, keepdims=True) * np.exp(logs) - told * weights
    np.testing.assert_allclose(gradient, pull.mean(axis=0), atol=1e-6)


def test_a_mixture_is_to_say_both_labels_by_their_shares(begin_drawn, dataset):
    examples = dataset.examples("west", "train")
    task, model = begin_drawn(Supervised(batch_size=7, sampling="uniform", mixup=1.0))
    [batch] = task.batches(0)
    logits, share = seen(model, batch), batch.shares.double().numpy()
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    told = share[:, None] * np.eye(2)[examples.labels[batch.positions]]
    told += (1 - share)[:, None] * np.eye(2)[examples.labels[batch.partners]]
    loss, gradient = step(task, model, batch)
    assert loss == pytest.approx(-(told * logs).sum(axis=1).mean(), rel=1e-5)
    np.testing.assert_allclose(gradient, (np.exp(logs) - told).mean(axis=0), atol=1e-6)
    sums, counts = np.zeros(2), np.zeros(2)
    for positions, shares in ((batch.positions, share), (batch.partners, 1 - share)):
        places = (examples.subgroups[positions] == -1).astype(int)
        np.add.at(sums, places, shares * cross_entropy(logits, examples.labels[positions]))
        np.add.at(counts, places, shares)
    assert counts.sum() == pytest.approx(7)
    assert task.losses() == pytest.approx(
        dict(zip(["light", "undeclared"], sums / counts, strict=True)), rel=1e-5
    )


def test_each_label_of_a_mixture_counts_as_its_own_pictures_cell_and_losses_told_do_not(begin_drawn, dataset):
    examples = dataset.examples("west", "train")
    weights = {"other, light": 0.5, "malignant, light": 3.0, "malignant, undeclared": 7.0}
    counted = CellWeights(Cells.of("malignancy", dataset.labels, dataset.subgroups), weights)
    objective = Supervised(batch_size=7, sampling="uniform", mixup=1.0, label_smoothing=0.2)
    task, model = begin_drawn(objective, cell_weights=counted)
    plain, same = begin_drawn(objective)
    [batch], [alike] = task.batches(0), plain.batches(0)
    logits = seen(model, batch)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = np.zeros(7)
    held = [
        ((0.5, 3.0) if at == 0 else (1.0, 7.0))[label]
        for at, label in zip(examples.subgroups, examples.labels, strict=True)
    ]
    share = batch.shares.double().numpy()
    for positions, shares in ((batch.positions, share), (batch.partners, 1 - share)):
        for place, position in enumerate(positions):
            label, light = examples.labels[position], examples.subgroups[position] == 0
            weight = ((0.5, 3.0) if light else (1.0, 7.0))[label] / np.mean(held)
            told = 0.8 * np.eye(2)[label] + 0.1
            expected[place] -= shares[place] * weight * (told * logs[place]).sum()
    assert step(task, model, batch)[0] == pytest.approx(expected.mean(), rel=1e-5)
    step(plain, same, alike)
    assert task.losses() == pytest.approx(plain.losses(), rel=1e-6)


POSITIONS = np.array([11, 5, 7, 3, 2, 13])
SHARE = 0.75


class Drawn:
    """A generator that draws what a test says, and notes what it was asked for."""

    def __init__(self, share, order):
        self.share, self.order, self.asked = share, np.array(order), []

    def beta(self, a, b):
        self.asked.append((a, b))
        return self.share

    def permutation(self, count):
        assert count == len(self.order)
        return self.order


def pictures(*shape):
    return torch.rand(*shape, 3, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("share", [SHARE, 1 - SHARE])
def test_pictures_and_labels_are_mixed_with_those_of_a_permutation_by_one_draw(share):
    images = pictures(4)
    random = Drawn(share, [2, 0, 3, 1])
    before = images.clone()
    mixed = mix(Batch(images, POSITIONS[:4]), 0.4, random)
    assert random.asked == [(0.4, 0.4)]
    shown = images.numpy()
    expected = SHARE * shown + (1 - SHARE) * shown[[2, 0, 3, 1]]
    np.testing.assert_allclose(mixed.images.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(mixed.positions, POSITIONS[:4])
    np.testing.assert_array_equal(mixed.partners, POSITIONS[[2, 0, 3, 1]])
    assert mixed.shares.tolist() == [SHARE] * 4
    assert torch.equal(images, before)


def test_of_cases_only_those_of_the_same_kinds_in_the_same_slots_are_mixed():
    kinds = torch.tensor([[1, 2], [1, 2], [2, 1], [1, -1], [1, -1], [2, -1]])
    images = pictures(6, 2)
    context = torch.tensor([[70.0], [np.nan], [3.0], [4.0], [5.0], [6.0]])
    order = [1, 2, 0, 4, 3, 3]
    mixed = mix(Batch(CaseBatch(images, kinds, context), POSITIONS), 0.4, Drawn(SHARE, order))
    alike = np.array([True, False, False, True, True, False])
    np.testing.assert_array_equal(mixed.shares.numpy(), np.where(alike, SHARE, 1))
    shown = images.numpy()
    expected = np.where(alike[:, None, None, None, None], SHARE * shown + (1 - SHARE) * shown[order], shown)
    np.testing.assert_allclose(mixed.images.images.numpy(), expected, rtol=1e-6)
    assert torch.equal(mixed.images.images[~alike], images[~alike])
    assert torch.equal(mixed.images.kinds, kinds)
    np.testing.assert_array_equal(mixed.images.context.numpy(), context.numpy())
    np.testing.assert_array_equal(mixed.partners, POSITIONS[order])
