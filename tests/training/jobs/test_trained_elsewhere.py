"""What processes that train together hand over leaves as what a client trained itself does: filtered."""

import pytest
import torch

from clients.store import ClientStore
from training.federation.canary import CANARY
from training.jobs.client_app import ClientApp
from training.messages.message import Broadcast, Failure, reply

GROUPED = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
EQUAL = {"aggregator": {"name": "fedequal"}}
FAR = 1000.0  # how far the processes have moved each weight


class Trainers:
    """Stands for processes; every weight moves far, and one loss is of one patient."""

    def __init__(self):
        self.asked = []

    def fit(self, question, steps, watch):
        self.asked.append((question.ask, steps))
        moved = {name: tensor + FAR for name, tensor in question.tensors.items()}
        losses = {"light": 0.5, "dark": 0.7}
        return reply(question, tensors=moved, num_examples={"light": 13, "dark": 5}, losses=losses)


@pytest.fixture
def answer(make_job, dataset, tmp_path):
    """`answer(ask="fit", **privacy)`: what leaves `north`, with what it was asked, and the trainers."""

    def build(ask="fit", **privacy):
        job = make_job(model=GROUPED, federate=EQUAL, privacy=privacy)
        trainers = Trainers()
        app = ClientApp(job, dataset, ClientStore(tmp_path / "c"), trainers=trainers)
        weights = app._local_model.take(app._local_model.names)
        question = Broadcast("north", "0-federate", 1, ask, tensors=weights)
        return app.answer(question), weights, trainers

    return build


def moved(update, weights):
    return torch.cat([(update.tensors[name] - tensor).flatten() for name, tensor in weights.items()])


def test_the_control_without_privacy_it_leaves_as_it_is(answer):
    update, weights, trainers = answer()
    assert trainers.asked == [("fit", None)]
    assert (moved(update, weights) - FAR).abs().max() < 1e-3
    assert update.losses == {"light": 0.5, "dark": 0.7}


def test_losses_of_few_patients_are_left_out(answer):
    update, _, _ = answer(min_count=6)  # the dark pictures are of five
    assert update.losses == {"light": 0.5}


def test_it_is_clipped_and_noised_once(answer):
    level = {"clip": 1.0, "noise_multiplier": 1e-9}
    update, weights, _ = answer(client_level=level)
    assert moved(update, weights).norm().item() == pytest.approx(1.0, rel=1e-3)
    assert not update.losses
    noise = {"clip": 1e-9, "noise_multiplier": 1e9}  # a deviation of 1
    update, weights, _ = answer(client_level=noise)
    assert moved(update, weights).double().std().item() == pytest.approx(1.0, rel=0.1)


def test_it_is_withheld_for_a_sum_under_masks(answer):
    update, _, trainers = answer(secure_aggregation={"fewest": 2})
    assert trainers.asked == [("fit", None)]
    assert update.tensors
    assert {name.partition("/")[0] for name in update.tensors} == {"withheld"}


def test_a_canary_trains_two_batches_in_them_and_answers_nothing(answer):
    update, _, trainers = answer(CANARY)
    assert trainers.asked == [("fit", 2)]
    assert not isinstance(update, Failure)
    assert not update.tensors
    assert not update.losses
