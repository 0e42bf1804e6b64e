"""FedIRM: its matrix and its losses by hand, its filter, and what its target passes leave alone."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from tests.closeness import assert_close_in_norm
from tests.drawn_head import draw_head
from tests.training.conftest import withheld
from training.algorithms.exchanges.base import NoExchange
from training.algorithms.exchanges.relations import SharedRelations
from training.algorithms.objectives.fedirm import FedIRM, MeanLogits, mean_prediction, relation_distance
from training.data.dataset import Examples
from training.messages import Update
from training.models import ModelConfig, build_model
from training.models.classifier import float_state

CLASSES = 3
RELATIONS = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
LABELLED = np.array([0, 1] * 9)
UNLABELLED = np.full(18, -1)


def model_of(**options):
    config = ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32], **options})
    model = draw_head(build_model(config, CLASSES, seed=1))
    with torch.no_grad():  # So that what it says of one picture and of another is not the same.
        model.encoder.fc.weight.mul_(40)
        model.encoder.conv1.weight.mul_(3)
    return model.train()


@pytest.fixture
def begin(dataset, work_of):
    """Begin north's round (13 light and 5 dark pictures) with these labels; gives task, model and teacher."""

    def start(objective, labels, round_=30, kept=None, received=None, model=None):
        whole = dataset.examples("north", "train")
        examples = Examples(whole.images, whole.rows, labels.astype(np.int64), whole.subgroups, whole.lesions)
        student = model or model_of()
        teacher = deepcopy(student).requires_grad_(False)
        with torch.no_grad():
            for parameter in teacher.parameters():
                parameter.fill_(9)
        work = work_of("north", "1-federate", round_, examples)
        work = replace(
            work, kept=kept or {}, received=received or {}, frozen_copies=lambda count: [teacher] * count
        )
        return objective.begin(student, work), student, teacher

    return start


def settings(**changes):
    return FedIRM(**{"batch_size": 6, **changes})


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def divergence(p, q):
    """KL(p ‖ q), term by term."""
    return sum(float(a) * math.log(float(a) / float(b)) for a, b in zip(p, q, strict=True))


def naive_distance(logits, labels, relations, temperature):
    """L_IRM class by class."""
    rows = []
    for c in range(len(relations)):
        mine = [logits[i] for i in range(len(labels)) if labels[i] == c]
        if mine:
            own = softmax(np.mean(mine, axis=0) / temperature)
            rows.append((divergence(relations[c], own) + divergence(own, relations[c])) / 2)
    return sum(rows) / len(rows)


@pytest.mark.parametrize(
    ("t", "weight"), [(0, 0.101069), (15, 4.297572), (29, 14.916897), (30, 15.0), (40, 15.0)]
)
def test_the_ramp(t, weight):
    assert FedIRM().weight(t) == pytest.approx(weight, rel=1e-5)
    assert FedIRM(rounds_before=t).weight(0) == FedIRM().weight(t)
    assert FedIRM(consistency=30).weight(t) == pytest.approx(2 * weight, rel=1e-5)
    assert FedIRM(ramp=0).weight(t) == 15


def test_the_matrix_of_two_batches_by_hand_with_a_class_absent():
    means = MeanLogits(3, torch.device("cpu"))
    means.add(torch.tensor([[4.0, 0, 0], [2, 2, 0], [0, 6, 0]]), torch.tensor([0, 0, 1]))
    means.add(torch.tensor([[1.0, 5, 2], [5, 1, 0]]), torch.tensor([0, 0]))
    # Class 0: ((3, 1, 0) + (3, 3, 1)) / 2 = (3, 2, 1/2); class 1: (0, 6, 0), in the first batch alone.
    expected = [softmax(np.array([1.5, 1, 0.25])), softmax(np.array([0, 3.0, 0])), np.full(3, 1 / 3)]
    np.testing.assert_allclose(means.relations(2.0, torch.ones(3, dtype=torch.bool)), expected, rtol=1e-12)


def test_nothing_is_disclosed_of_a_class_with_fewer_pictures_than_the_jobs_minimum(begin):
    task, _, _ = begin(settings(), np.array([0] * 11 + [1] * 5 + [2] * 2))
    for batch in task.batches(0):
        task.loss(batch)
    whole = task.outgoing()["relations"]
    assert not torch.allclose(whole[2], torch.full((3,), 1 / 3))
    task._work = replace(task._work, min_count=5)
    sent = task.outgoing()["relations"]
    torch.testing.assert_close(sent[:2], whole[:2])
    torch.testing.assert_close(sent[2], torch.full((3,), 1 / 3))


def test_a_labelled_client_sends_the_matrix_of_its_last_epoch(begin):
    task, model, _ = begin(settings(epochs=2), LABELLED)
    for epoch in range(2):
        sums, batches = np.zeros((3, 3)), np.zeros(3)
        for batch in task.batches(epoch):
            loss = task.loss(batch)
            with torch.no_grad():
                logits = model(batch.images).double().numpy()
            labels = LABELLED[batch.positions]
            crossed = [-math.log(softmax(row)[c]) for row, c in zip(logits, labels, strict=True)]
            assert loss.item() == pytest.approx(np.mean(crossed), rel=1e-4)
            for c in set(labels):
                sums[c] += logits[labels == c].mean(axis=0)
                batches[c] += 1
        assert batches.tolist()[2] == 0
    expected = [softmax(row / max(n, 1) / 2) for row, n in zip(sums, batches, strict=True)]
    sent = task.outgoing()["relations"]
    assert sent.dtype == torch.float32
    np.testing.assert_allclose(sent, expected, atol=1e-5)
    np.testing.assert_allclose(sent[2], 1 / 3, rtol=1e-6)
    update = Update("north", "1-federate", 1, "fit", tensors={"exchange/relations": sent})
    SharedRelations().check(update, {})
    assert task.keep() == {}
    assert task.scalars() == {}


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("labels", [[0, 1, 0, 0], [2, 2, 2, 2], [0, 1, 2, 1]])
def test_the_distance_is_both_divergences_over_the_classes_that_occur(labels, temperature):
    logits = np.random.default_rng(len(set(labels))).normal(0, 3, (4, 3))
    ours = relation_distance(torch.from_numpy(logits), torch.tensor(labels), RELATIONS.double(), temperature)
    expected = naive_distance(logits, labels, RELATIONS.numpy(), temperature)
    assert ours.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("max_entropy", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("min_confidence", [0.0, 0.75])
def test_pictures_are_kept_by_confidence_and_entropy(begin, max_entropy, min_confidence):
    config = settings(batch_size=18, max_entropy=max_entropy, min_confidence=min_confidence)
    task, model, _ = begin(config, UNLABELLED, received={"relations": RELATIONS})
    [batch] = task.batches(0)
    task.loss(batch)
    with torch.no_grad():
        logits = deepcopy(model).eval()(batch.images[:18]).double().numpy()
    expected = []
    for row in logits:
        p = softmax(row)
        unsure = -sum(value * math.log(value) for value in p)
        expected.append(max(p) >= min_confidence and unsure <= max_entropy * math.log(3))
    assert task.scalars()["kept"] == pytest.approx(np.mean(expected))
    if max_entropy in (0.3, 0.6):
        assert 0 < sum(expected) < 18


def transcribed(student, teacher, images, weight, config):
    """The loss of a batch as the equations have it, with the gradient into `student`."""
    first, second = images.chunk(2)
    logits = student(first)
    with torch.no_grad():
        target = torch.softmax(teacher.eval()(second), dim=1)
        student.eval()
        sure = torch.softmax(student(first), dim=1)
        student.train()
    consistency = ((torch.softmax(logits, dim=1) - target) ** 2).sum() / len(first)
    labels, terms = sure.argmax(dim=1), []
    limit = config.max_entropy * math.log(CLASSES)
    kept = (sure.max(dim=1).values >= config.min_confidence) & (-(sure * sure.log()).sum(dim=1) <= limit)
    for c in range(CLASSES):
        chosen = kept & (labels == c)
        if chosen.any():
            own = torch.softmax(logits[chosen].mean(dim=0) / config.temperature, dim=0)
            there = F.kl_div(own.log(), RELATIONS[c], reduction="sum")
            back = F.kl_div(RELATIONS[c].log(), own, reduction="sum")
            terms.append((there + back) / 2)
    assert len(terms) >= 2
    return weight * (consistency + sum(terms) / len(terms)), int(kept.sum())


def test_a_gradient_step_is_that_of_a_transcription_and_statistics_move_once(begin):
    config = settings(batch_size=18, min_confidence=0.6, max_entropy=0.9, consistency=4, ramp=20)
    task, model, _ = begin(config, UNLABELLED, round_=10, received={"relations": RELATIONS})
    copy, teacher = deepcopy(model), deepcopy(model)
    with torch.no_grad():  # A step between, so that student and teacher differ.
        for side in (model, copy):
            side.encoder.fc.bias.add_(torch.tensor([0.3, -0.2, 0.1]))
    [batch] = task.batches(0)
    loss = task.loss(batch)
    loss.backward()
    expected, kept = transcribed(copy, teacher, batch.images, 4 * math.exp(-1.25), config)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert 0 < kept < 18
    assert task.scalars()["kept"] == pytest.approx(kept / 18)
    for (name, ours), theirs in zip(model.named_parameters(), copy.parameters(), strict=True):
        assert_close_in_norm(ours.grad, theirs.grad, of=name)
    for name, ours in model.named_buffers():
        assert torch.equal(ours, copy.get_buffer(name)), name
    assert all(module.training for module in model.modules())


def test_before_the_first_matrix_there_is_consistency_alone(begin):
    task, model, teacher = begin(settings(), UNLABELLED)
    batch = next(task.batches(0))
    first, second = batch.images.chunk(2)
    with torch.no_grad():
        said = deepcopy(model)(first).softmax(dim=1)
        taught = deepcopy(teacher).eval()(second).softmax(dim=1)
    expected = ((said - taught) ** 2).sum(dim=1).mean().item()
    assert task.loss(batch).item() == pytest.approx(15 * expected, rel=1e-4)
    assert task.scalars() == pytest.approx({"consistency": expected}, rel=1e-4)
    assert task.outgoing() == {}


def test_the_teacher_starts_as_received_follows_each_step_and_gets_no_gradient(begin):
    task, model, teacher = begin(settings(momentum=0.75), UNLABELLED)
    expected = {name: tensor.clone() for name, tensor in float_state(model).items()}
    for name, tensor in float_state(teacher).items():
        assert torch.equal(tensor, expected[name])
    for batch in task.batches(0):
        task.loss(batch).backward()
        for name, tensor in float_state(teacher).items():
            assert_close_in_norm(tensor, expected[name], 1e-6)  # Its statistics too: no pass moves them.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1)
        task.after_step()
        for name, tensor in float_state(model).items():
            expected[name] = 0.75 * expected[name] + 0.25 * tensor
            assert_close_in_norm(float_state(teacher)[name], expected[name], 1e-6)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert any(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("lone", ["labelled", "unlabelled"])
def test_a_lone_picture_of_a_kind_is_left_out(begin, lone):
    labels = (
        np.where(np.arange(18) == 4, 1, -1) if lone == "labelled" else np.where(np.arange(18) == 4, -1, 1)
    )
    task, _, _ = begin(settings(), labels, received={"relations": RELATIONS})
    assert sum(task.num_examples().values()) == 17
    assert bool(task.outgoing()) == (lone == "unlabelled")
    assert bool(task.keep()) == (lone == "labelled")
    drawn = [position for batch in task.batches(0) for position in batch.positions]
    assert sorted(drawn) == list(range(17))


def test_passes_draw_dropout_and_leave_statistics_and_modes_alone():
    model = model_of(drop_rate=0.2)
    with torch.no_grad():
        model.encoder.fc.weight.div_(10)
    model.encoder.layer1.eval()
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    modes = [module.training for module in model.modules()]
    images = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(3)
    once, often = (mean_prediction(model, images, n, 0.0, torch.Generator()) for n in (1, 300))
    assert [module.training for module in model.modules()] == modes
    for name, tensor in model.named_buffers():
        assert torch.equal(tensor, before[name])
    # Dropout before a linear layer leaves the mean of its logits where it is.
    with torch.no_grad():
        still = deepcopy(model).eval()(images).softmax(dim=1)
    torch.testing.assert_close(often, still, atol=0.1, rtol=0)
    assert (once - still).abs().max() > 0.2


def test_another_exchange_and_batches_of_one_are_refused():
    FedIRM().fit_with(SharedRelations())
    with pytest.raises(ValueError, match="fedirm gets no relations with exchange none; set"):
        FedIRM().fit_with(NoExchange())
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        FedIRM(batch_size=1)


@pytest.fixture
def job(make_job):
    """Three rounds of FedIRM; every picture is kept."""
    sgd = {"name": "sgd", "lr": 0.01}
    objective = {"name": "fedirm", "batch_size": 6, "ramp": 2, "max_entropy": 1.0, "optimizer": sgd}
    return make_job(federate={"rounds": 3, "objective": objective, "exchange": {"name": "relations"}})


def test_relations_of_clients_with_labels_reach_all_from_round_2(run_job, dataset, job):
    ran = run_job(job, withheld(dataset, {"west": 0}))
    first, *later = [line["models"]["global"] for line in ran.lines]
    assert set(first["scalars"]) == {"west"}
    assert set(first["scalars"]["west"]) == {"consistency"}
    assert not first.get("exchange")
    for round_, told in enumerate(later, start=1):
        assert told["exchange"] == {
            client: {"clients": 2, "round": round_} for client in ("north", "south", "west")
        }
        assert set(told["scalars"]) == {"west"}
        assert told["scalars"]["west"]["kept"] == 1
        assert told["scalars"]["west"]["relation"] > 0
    relations = ran.result.stages["0-federate"].outcome.facts["relations"]
    assert relations["clients"] == 2
    np.testing.assert_allclose(np.sum(relations["matrix"], axis=1), 1, atol=1e-5)
