"""The loss of the one malignant picture of a subgroup, from the subgroup's and that of its other pictures.

Group DRO has losses told by malignancy and subgroup, and every objective tells training losses by subgroup. A
coordinator whose job hardly moves the model gets both of one model, and subtracts.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from training.data.cells import Cells, count_people
from training.jobs.client_app import answer_privately
from training.messages import Broadcast

LEAST = 10


@pytest.fixture
def north(make_dataset, make_client, make_job):
    """60 light pictures and 21 dark ones, of which one is malignant; each of another patient."""
    data = make_dataset({"north": {"light": (60, 2, 2, 2), "dark": (21, 2, 2, 2)}})
    examples = data.held["north", "train"]
    labels = np.where(examples.subgroups == 0, np.arange(81) % 3 == 0, np.arange(81) == 70).astype(np.int64)
    data.held["north", "train"] = replace(examples, labels=labels, lesions=np.arange(81))
    return replace(make_client("north", data=data, job=still(make_job)), min_count=LEAST)


def still(make_job):
    """A job whose training changes nothing that a loss would show, and draws every picture once."""
    objective = {
        "name": "supervised",
        "epochs": 1,
        "batch_size": 100,
        "sampling": "uniform",
        "optimizer": {"name": "sgd", "lr": 1e-30, "momentum": 0},
        "augment": {"flip": False},
    }
    return make_job(
        federate={"rounds": 1, "objective": objective, "aggregator": {"name": "group-dro"}},
        model={"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}},
        privacy={"min_count": LEAST},
    )


def subtracted(update, cell="other, dark", subgroup="dark"):
    """What the attacker takes for the loss of the one; None without a number. The census tells sizes."""
    rest = update.scalars.get(f"received_loss/{cell}")
    return None if rest is None else 21 * update.losses[subgroup] - 20 * rest


def answered(north, make_job):
    weights = north.local_model.take(north.local_model.names)
    request = Broadcast("north", "0-federate", 1, "fit", tensors=weights)
    return answer_privately(still(make_job), request, north)


def loss_of_the_one(north):
    examples = north.examples("train")
    pixels = torch.from_numpy(examples.images[70:71].astype(np.float32) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        return float(F.cross_entropy(north.local_model.model.eval()(pixels), torch.tensor([1])))


def test_the_loss_of_the_one_is_not_subtracted(north, make_job, monkeypatch):
    update = answered(north, make_job)
    assert "dark" in update.losses, "what the attack starts from"
    assert subtracted(update) is None
    assert {"received_loss/other, light", "received_loss/malignant, light"} == update.scalars.keys()

    # The control: every cell of enough patients tells its loss, whatever it leaves unsaid.
    def enough(self, examples, min_count):
        sizes = count_people(self.numbers(examples), examples.people, len(self.names))
        return {name for name, size in zip(self.names, sizes, strict=True) if size >= min_count}

    monkeypatch.setattr(Cells, "disclosed", enough)
    assert subtracted(answered(north, make_job)) == pytest.approx(loss_of_the_one(north), rel=1e-3)
