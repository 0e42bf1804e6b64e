"""Weighted nearest neighbours: what scikit-learn says, and whose training pictures may answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from training.data.dataset import Cases, Examples
from training.federation.blocks import EvaluateQuestion, unpack_blocks
from training.federation.client import neighbours
from training.federation.client.neighbours import answer_neighbours, directions, vote
from training.federation.questions import NEIGHBOURS
from training.messages.message import GLOBAL, Broadcast

CPU = torch.device("cpu")


def examples_of(features, labels, *, view=None):
    rows = np.arange(len(labels))
    return Examples(features.astype(np.float16), rows, labels, np.zeros_like(rows), rows, cases=view)


def drawn(n, seed, classes=3, width=6):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1, (n, width)), rng.integers(classes, size=n)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (5, 0.07), (20, 0.5), (40, 0.01)])
def test_probabilities_are_scikit_learns(k, temperature, monkeypatch):
    monkeypatch.setattr(neighbours, "EVALUATION_BATCH", 7)
    (bank, labels), (shown, unused) = drawn(40, 1), drawn(25, 2)
    reference = KNeighborsClassifier(
        k,
        metric="cosine",
        algorithm="brute",
        weights=lambda distances: np.exp((1 - distances - 1) / temperature),  # of one factor for all of a row
    )
    reference.fit(bank.astype(np.float16).astype(np.float64), labels)
    expected = reference.predict_proba(shown.astype(np.float16).astype(np.float64))
    known = examples_of(bank, labels)
    found = vote(
        directions(examples_of(shown, unused), CPU),
        directions(known, CPU),
        torch.from_numpy(labels),
        3,
        k,
        temperature,
    )
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_where_there_are_fewer_than_k_all_are_looked_at():
    (bank, labels), (shown, unused) = drawn(4, 1), drawn(6, 2)
    given = [directions(examples_of(shown, unused), CPU), directions(examples_of(bank, labels), CPU)]
    few, all_four = (vote(*given, torch.from_numpy(labels), 3, k, 0.5) for k in (20, 4))
    np.testing.assert_array_equal(few, all_four)


def test_a_case_is_the_direction_of_its_pictures_mean_direction():
    features, labels = drawn(6, 3)
    slots = np.array([[0, 3], [4, -1], [-1, 5]])
    cases = Cases(slots, np.where(slots >= 0, 1, -1), np.zeros((3, 0), dtype=np.float32))
    found = directions(replace(examples_of(features, labels[:3], view=cases), rows=slots.max(axis=1)), CPU)
    kept = features.astype(np.float16).astype(np.float64)
    for row, pictures in zip(found.numpy(), slots, strict=True):
        mean = np.mean(
            [kept[place] / np.linalg.norm(kept[place]) for place in pictures if place >= 0], axis=0
        )
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


@pytest.fixture
def ask(make_client):
    """`ask(client, k)`: the blocks by which a client answers about its test pictures."""

    def answer(client, k=3):
        question = EvaluateQuestion(split="test", subgroups=("light", "dark")).model_dump()
        broadcast = Broadcast(client.id, "0-probe", 0, NEIGHBOURS, GLOBAL, {}, question)
        return unpack_blocks(answer_neighbours(broadcast, client, k, 0.07))

    return answer


class Features:
    """The dataset with some pixels as features; so many training pictures are kept, and have a label."""

    def __init__(self, dataset, kept=None, labelled=None):
        self._dataset, self._kept, self._labelled = dataset, kept, labelled

    def __getattr__(self, name):
        return getattr(self._dataset, name)

    def examples(self, client, split):
        examples = self._dataset.examples(client, split)
        features = (examples.images.reshape(len(examples.images), -1)[:, :30] / 255).astype(np.float16)
        labels = examples.labels.copy()
        if split == "train":
            labels[self._labelled or len(labels) :] = -1
        found = replace(examples, images=features, labels=labels)
        keep = np.arange(len(labels)) < (self._kept or len(labels))
        return found if split != "train" else found.where(keep)


def test_pictures_without_a_label_vote_for_nothing(ask, make_client, dataset):
    whole = ask(make_client(data=Features(dataset, kept=6)), k=50)
    unlabelled = ask(make_client(data=Features(dataset, labelled=6)), k=50)
    assert whole.keys() == {"light", "dark"}
    for name, block in whole.items():
        np.testing.assert_array_equal(block.point.confusion, unlabelled[name].point.confusion)


@pytest.mark.parametrize(("kept", "told"), [(5, set()), (6, {"light"})])
def test_training_pictures_of_few_patients_answer_for_nobody(kept, told, ask, make_client, make_job, dataset):
    """The first two pictures share a lesion: six are of five patients, as the light test pictures are."""
    client = make_client(data=Features(dataset, kept), job=make_job(privacy={"min_count": 5}))
    assert ask(client, k=1).keys() == told
    assert bool(client.releases.all(client.id)) == bool(told)
