"""Two steps of a codebook whose cells differ by one patch: their difference is that patch.

The coordinator sends centroids again and again; between two it moves one by so little that a patch or two
change their cell. In the control every step is over all patches.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from clients.store import ClientStore
from training.algorithms.objectives.codebook import CELLS, Cells, Codebook, cells, nearest
from training.errors import MessageError
from training.messages import Broadcast
from training.models.patches import PatchGrid, patchify

GRID = PatchGrid(4, 4, 4, 4)
TOKENIZER = Codebook(size=8, iterations=4, min_members=10)
MOVES = 150  # of one centroid


@pytest.fixture
def north(make_dataset, make_client, tmp_path):
    """A hospital of 120 pictures, each but two of another patient, that tells nothing of one alone."""
    data = make_dataset({"north": {"light": (120, 2, 2, 2)}})
    return replace(make_client("north", data=data), min_count=2, store=ClientStore(tmp_path / "north"))


@pytest.fixture
def patches(north):
    """All patches of the hospital, `(patches, pixels)`."""
    examples = north.examples("train")
    pictures = torch.from_numpy(examples.images[examples.rows])
    return patchify(pictures.permute(0, 3, 1, 2).double(), GRID).flatten(0, 1)


def moved(patches):
    """Centroids, and the same with the first one moved ever further."""
    random = np.random.default_rng(0)
    start = patches[torch.from_numpy(random.choice(len(patches), 8, replace=False))] + 0.25
    push = torch.from_numpy(random.normal(0, 0.02, start.shape[1]))
    first = torch.eye(8, dtype=torch.float64)[0]
    return [start + torch.outer(first, push * move) for move in range(MOVES)]


def recovered(told, patches):
    """How many of the patches are the difference of cells in two answers."""
    known = {tuple(row) for row in patches.tolist()}
    found = set()
    for place, first in enumerate(told):
        for second in told[place + 1 : place + 5]:
            apart = (second.counts - first.counts).abs() == 1
            found |= {tuple(row) for row in (second.totals - first.totals)[apart].abs().tolist()} & known
    return len(found)


def answer(client, centroids, step):
    """What a client tells of a step around some centroids."""
    asked, options = {"centroids": centroids}, {"step": step}
    request = Broadcast(client.id, "0-pretrain", 0, CELLS, "global", asked, options)
    told = TOKENIZER.answer(request, client, GRID).tensors
    return Cells(told["totals"], told["counts"])


def test_steps_over_the_same_patches_tell_patches(patches):
    """The control."""
    told = [cells(patches, nearest(patches, centroids), 8) for centroids in moved(patches)]
    assert recovered(told, patches) > 5


def test_steps_over_parts_tell_none(north, patches):
    """The two steps are those between which steps over all patches tell one."""
    chosen = moved(patches)
    told = [cells(patches, nearest(patches, centroids), 8) for centroids in chosen]
    place = next(at for at in range(MOVES) if recovered(told[at : at + 2], patches))
    answers = [answer(north, chosen[place + step], step + 1) for step in (0, 1)]
    assert sum(int(step.counts.sum()) for step in answers) > len(patches) / 4
    assert recovered(answers, patches) == 0


def test_a_step_asked_again_around_other_centroids_is_refused(north, patches, tmp_path):
    first, second, *_ = moved(patches)
    told = answer(north, first, 1)
    assert torch.equal(told.totals, answer(north, first, 1).totals), "a resumed run may ask again"
    restarted = replace(north, store=ClientStore(tmp_path / "north"))
    for client in (north, restarted):
        with pytest.raises(MessageError, match="has answered it otherwise in this run"):
            answer(client, second, 1)
