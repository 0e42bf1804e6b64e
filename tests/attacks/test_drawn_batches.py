"""A mean loss over a draw in which one picture was dark is the loss of that picture.

The coordinator knows the seeds, and so who is drawn in which round; with `samples` it need only wait for a
round in which one patient of a small subgroup comes alone. In the control a loss is told where the client
held `min_count` pictures of the subgroup, however many of them were drawn.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.thorough import mostly_long
from training.algorithms.objectives.epochs import SubgroupLosses
from training.jobs.client_app import answer_privately
from training.messages import Broadcast

ROUNDS, LEAST = 40, 10
OBJECTIVES = {
    "supervised": {"name": "supervised", "epochs": 1, "batch_size": 16, "samples": 16},
    "fixmatch": {"name": "fixmatch", "epochs": 1, "batch_size": 8, "unlabelled_ratio": 1, "samples": 8},
}


@pytest.fixture
def drawn(monkeypatch):
    """How many dark patients were in the last epoch, as the seeds tell the coordinator."""
    seen, losses = [], SubgroupLosses.losses

    def count(self):
        drawn = self.drawn
        seen.append(drawn.where(drawn.subgroups == 1).num_people)
        return losses(self)

    monkeypatch.setattr(SubgroupLosses, "losses", count)
    return seen


@pytest.fixture
def north(make_dataset, make_client):
    """100 training pictures, 12 of them of dark skin; a third has no label."""
    data = make_dataset({"north": {"light": (88, 2, 2, 2), "dark": (12, 2, 2, 2)}})
    examples = data.held["north", "train"]
    labels = np.where(np.arange(100) % 3 == 1, -1, examples.labels)
    data.held["north", "train"] = replace(examples, labels=labels, lesions=np.arange(100))
    return make_client("north", data=data)


def alone_and_told(north, job, drawn, least):
    """In how many rounds one dark patient was drawn, and in how many of these the loss was told."""
    client, alone, told = replace(north, min_count=least), 0, 0
    weights = client.local_model.take(client.local_model.names)
    for round_ in range(1, ROUNDS + 1):
        request = Broadcast("north", "0-federate", round_, "fit", tensors=weights)
        losses = answer_privately(job, request, client).losses
        alone += drawn[-1] == 1
        told += drawn[-1] == 1 and "dark" in losses
        assert least == 1 or "light" not in losses or len(losses) == 1 or drawn[-1] >= least
    return alone, told


@pytest.mark.parametrize("objective", mostly_long(OBJECTIVES, "supervised"))
def test_the_loss_of_one_drawn_picture_is_not_told(north, make_job, drawn, objective):
    job = make_job(federate={"rounds": ROUNDS, "objective": OBJECTIVES[objective]})
    # The control: 12 dark pictures are held, and 10 are enough, were it not for the draw.
    alone, told = alone_and_told(north, job, drawn, least=1)
    assert told == alone > 4
    alone, told = alone_and_told(north, job, drawn, least=LEAST)
    assert alone > 4
    assert told == 0
