"""FixMatch with and without peers: pseudo labels, what counts, and where gradients go."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.closeness import assert_close_in_norm
from tests.drawn_head import draw_head
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.base import Batch
from training.algorithms.objectives.fixmatch import FixMatch, disagreement
from training.models import build_model
from training.models.classifier import float_state

PLAIN = {"augment": {"flip": False}}


class Fixed(nn.Module):
    """Answers with its own logits: the picture's first pixel says which row; one shared shift is learned."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)
        self.shift = nn.Parameter(torch.zeros(self.logits.shape[1]))
        self.num_classes = self.logits.shape[1]

    def forward(self, images):
        rows = (images[:, 0, 0, 0] * 255).round().long()
        return self.logits[rows] + self.shift


def half_labelled(examples, keep=3):
    """The client's pictures, the labels of all but the first few withheld."""
    return replace(examples, labels=np.where(np.arange(len(examples)) < keep, examples.labels, -1))


@pytest.fixture
def begin(dataset, work_of, make_job):
    """Begin a round on a real model; gives the task, the model and the work."""

    def start(objective, peers=(), keep=3, **changes):
        model = draw_head(build_model(make_job().model, 2, seed=1)).train()
        local_model = LocalModel(model, "cpu")
        received = {
            f"peer-{place}/{name}": tensor
            for place, peer in enumerate(peers)
            for name, tensor in float_state(peer).items()
        }
        examples = half_labelled(dataset.examples("north", "train"), keep)
        work = replace(
            work_of("north", "0-federate", examples=examples),
            received=received,
            frozen_copies=local_model.frozen_copies,
            **changes,
        )
        return objective.begin(local_model.model, work), local_model.model, work

    return start


@pytest.fixture
def fixed(work_of, dataset):
    """A round whose model says what it is told; pictures 0 to 3, of which the first is labelled 1."""

    def start(objective, logits, peer_logits=()):
        examples = dataset.examples("north", "train")
        images = np.zeros((4, 2, 2, 3), dtype=np.uint8)
        images[:] = np.arange(4)[:, None, None, None]
        four = np.arange(4)
        labels = np.array([1, -1, -1, -1])
        examples = type(examples)(images, four, labels, np.zeros(4, dtype=np.int64), four)
        model = Fixed(logits)
        task = objective.begin(model, work_of("north", "0-federate", examples=examples))
        task._peers = [Fixed(one) for one in peer_logits]
        return task, model

    return start


def batch_of(labelled, unlabelled):
    """Pictures as the task makes them, unchanged by any augmentation."""
    rows = torch.tensor([*labelled, *unlabelled, *unlabelled]).float() / 255
    return Batch(rows.view(-1, 1, 1, 1).expand(-1, 3, 2, 2), np.array([*labelled, *unlabelled]))


# Probabilities of pictures 1 to 3 are (0.7, 0.2, 0.1), (0.5, 0.3, 0.2) and (0.1, 0.3, 0.6).
LOGITS = np.log([[0.2, 0.5, 0.3], [0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]).astype(np.float32)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.55, -np.log(0.5) + 0.5 * (-np.log(0.7) - np.log(0.6)) / 3),
        (0.65, -np.log(0.5) + 0.5 * -np.log(0.7) / 3),
        (0.9, -np.log(0.5)),
        (0.0, -np.log(0.5) + 0.5 * (-np.log(0.7) - np.log(0.5) - np.log(0.6)) / 3),
    ],
)
def test_the_loss_by_hand_with_a_threshold(fixed, threshold, expected):
    task, _ = fixed(FixMatch(threshold=threshold, beta=0.5), LOGITS)
    loss = task.loss(batch_of([0], [1, 2, 3]))
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    kept = sum(top >= threshold for top in (0.7, 0.5, 0.6))
    assert task.scalars() == {"kept": pytest.approx(kept / 3)}


def test_peers_vote_with_probabilities_and_an_anonymized_one_is_one_voice(fixed):
    # Picture 2: the client says (0.5, 0.3, 0.2), the peers (0.1, 0.9, 0) and (0.2, 0.7, 0.1).
    peers = [
        np.log([[0.98, 0.01, 0.01]] * 2 + [row] + [[0.98, 0.01, 0.01]]).astype(np.float32)
        for row in ([0.1, 0.89, 0.01], [0.2, 0.7, 0.1])
    ]
    for count, scores in ((0, [0.5, 0.3, 0.2]), (1, [0.3, 0.595, 0.105]), (2, [0.8 / 3, 1.89 / 3, 0.31 / 3])):
        task, _ = fixed(FixMatch(threshold=0.49, beta=1, gamma=0), LOGITS, peers[:count])
        taught = int(np.argmax(scores))
        assert task.loss(batch_of([], [2])).item() == pytest.approx(-LOGITS[2][taught], rel=1e-5)
        just, above = max(scores) - 1e-3, max(scores) + 1e-3
        for threshold, kept in ((just, 1), (above, 0)):
            task, _ = fixed(FixMatch(threshold=threshold), LOGITS, peers[:count])
            task.loss(batch_of([], [2]))
            assert task.scalars() == {"kept": kept}


def test_agreement_by_hand_is_a_mean_over_peers_and_moves_the_client(fixed):
    own, theirs = (
        torch.tensor([[0.5, 0.3, 0.2]]),
        [torch.tensor([[0.1, 0.8, 0.1]]), torch.tensor([[0.5, 0.3, 0.2]])],
    )
    assert disagreement(own, theirs).tolist() == pytest.approx([(0.16 + 0.25 + 0.01) / 2])
    peer = np.log([[0.1, 0.8, 0.1]] * 4).astype(np.float32)
    task, model = fixed(FixMatch(threshold=1.0, gamma=2.0), LOGITS, [peer])
    loss = task.loss(batch_of([], [2]))
    assert loss.item() == pytest.approx(2 * (0.16 + 0.25 + 0.01), rel=1e-5)
    loss.backward()
    # d/dz_j Σ_k (p_k − q_k)² = 2 p_j ((p_j − q_j) − Σ_k p_k (p_k − q_k)).
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.8, 0.1])
    expected = 2 * 2 * p * ((p - q) - (p * (p - q)).sum())
    assert_close_in_norm(model.shift.grad, expected)


def test_what_did_not_travel_of_a_peer_is_the_clients_own(begin, make_job):
    peer = build_model(make_job().model, 2, seed=5)
    _, model, work = begin(FixMatch(**PLAIN, batch_size=4), [])
    some = dict(list(float_state(peer).items())[:3])
    received = {f"peer-0/{name}": tensor for name, tensor in some.items()}
    FixMatch(**PLAIN).begin(model, replace(work, received=received))
    held = float_state(work.frozen_copies(1)[0])
    for name, tensor in float_state(model).items():
        assert torch.equal(held[name], some.get(name, tensor))


def test_a_round_beside_an_independent_transcription(begin, make_job):
    peers = [build_model(make_job().model, 2, seed=seed) for seed in (5, 6)]
    config = FixMatch(**PLAIN, threshold=0.5, beta=0.7, gamma=0.3, batch_size=4, unlabelled_ratio=2)
    task, model, work = begin(config, peers, keep=5)
    frozen_copy = deepcopy(model)
    pictures = torch.from_numpy(np.array(work.examples.images)).permute(0, 3, 1, 2).float() / 255
    labels = torch.from_numpy(work.examples.labels)
    seen = []
    for batch in task.batches(0):
        seen += batch.positions.tolist()
        ours = task.loss(batch)
        known = torch.tensor([p for p in batch.positions if labels[p] >= 0])
        other = torch.tensor([p for p in batch.positions if labels[p] < 0])
        with torch.no_grad():
            frozen_copy.eval()
            says = [frozen_copy(pictures[other]).softmax(1)] + [
                p.eval()(pictures[other]).softmax(1) for p in peers
            ]
            frozen_copy.train()
        top, pseudo = (sum(says) / 3).max(dim=1)
        n, m = len(known), len(other)
        strong = batch.images[n + m :]
        together = frozen_copy(torch.cat([pictures[known], strong, pictures[other]]))
        supervised = F.cross_entropy(together[:n], labels[known])
        taught = (F.cross_entropy(together[n : n + m], pseudo, reduction="none") * (top >= 0.5)).mean()
        weak = together[n + m :].softmax(1)
        apart = sum(((weak - say) ** 2).sum(1).mean() for say in says[1:]) / 2
        torch.testing.assert_close(ours, supervised + 0.7 * taught + 0.3 * apart)
    held = [p for p in range(len(labels)) if labels[p] < 0]
    assert {p for p in seen if labels[p] < 0} == set(held), "every unlabelled picture was seen"


@pytest.mark.parametrize("keep", [0, 1, 18])
def test_clients_with_one_kind_of_pictures_train_as_many_steps(begin, keep):
    task, _, work = begin(FixMatch(**PLAIN, batch_size=4, samples=18), keep=keep)
    batches = list(task.batches(0))
    assert len(batches) == 5
    for batch in batches:
        loss = task.loss(batch)
        loss.backward()
        assert torch.isfinite(loss)
    assert task.num_examples() == {"light": 13, "dark": 5}
    assert ("kept" in task.scalars()) == (keep < len(work.examples))


def test_the_original_picture_makes_the_pseudo_label_where_asked(begin):
    strong = {"operations": 2, "magnitude": 20}
    config = FixMatch(augment={"brightness": 0.5}, strong=strong, pseudo_view="original", batch_size=4)
    task, _, work = begin(config, keep=0)
    batch = next(task.batches(0))
    n = len(batch.positions)
    plain = torch.from_numpy(work.examples.batch(batch.positions)).permute(0, 3, 1, 2).float() / 255
    assert torch.equal(batch.images[:n], plain)
    assert not torch.equal(batch.images[n:], plain)
    weak = begin(config.model_copy(update={"pseudo_view": "weak"}), keep=0)[0]
    assert not torch.equal(next(weak.batches(0)).images[:n], plain)
