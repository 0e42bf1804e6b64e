"""A client's counts: patients by skin tone, and answers by the nearest training pictures."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from training.algorithms.client import MemoryReleases
from training.data.dataset import DECLARED_TONE, Cases, Examples
from training.messages import GLOBAL, Broadcast
from training.rounds.client import evaluate
from training.rounds.client.disclosure import patients_by_tone
from training.rounds.client.evaluate import answer_neighbours, directions, vote
from training.rounds.requests import NEIGHBOURS, EvaluateRequest, unpack_blocks

TONES = ("fitzpatrick 3", "fitzpatrick 4", "fitzpatrick 5", "fitzpatrick 6")
LEAST = 10


def part(sizes, *, per_patient=1):
    """A subgroup with so many patients of each tone; each has so many pictures."""
    of_each = np.repeat(np.repeat(np.arange(len(sizes)), sizes), per_patient)
    patients = np.repeat(np.arange(sum(sizes)), per_patient)
    numbers = np.arange(len(of_each))
    return Examples(
        np.zeros((len(of_each), 1)),
        numbers,
        np.zeros_like(numbers),
        np.zeros_like(numbers),
        patients,
        traits=of_each[:, None],
        names=np.column_stack([numbers + 1000, patients]),
    )


def told(sizes, least=LEAST, releases=None, **pictures):
    """What a client tells of them."""
    values = (*TONES[: len(sizes)], "")
    client = SimpleNamespace(
        id="north",
        min_count=least,
        releases=releases or MemoryReleases(),
        dataset=SimpleNamespace(traits={DECLARED_TONE: values}),
    )
    return tuple(patients_by_tone(client, {"medium-dark": part(sizes, **pictures)}).tolist())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((45, 20, 12, 10), (45, 20, 12, 10)),
        ((45, 20, 0, 0), (45, 20, 0, 0)),
        ((45, 20, 12, 3), (10, 10, 10, 0)),  # of each of three at least the minimum
        ((45, 20, 8, 9), (10, 10, 0, 0)),
        ((11, 4), (0, 0)),  # 15 are fewer than 10 and the 9 that "too few" may be
        ((15, 4), (10, 0)),
        ((9, 9, 9, 9), (0, 0, 0, 0)),
    ],
)
def test_by_hand(sizes, expected):
    assert told(sizes) == expected
    assert told(sizes, per_patient=3) == expected  # patients count, not pictures


def naive(sizes, least):
    """The guard off: whatever has enough patients is told as it is."""
    return tuple(n if n >= least else 0 for n in sizes)


def found_out(answer, sizes, least):
    """The numbers below the minimum that all groups of this size with this answer have in common."""
    total, said = sum(sizes), answer(sizes, least)
    alike = [
        other
        for other in product(range(total + 1), repeat=len(sizes))
        if sum(other) == total and answer(other, least) == said
    ]
    return [
        place
        for place, n in enumerate(sizes)
        if 0 < n < least and len({other[place] for other in alike}) == 1
    ]


@pytest.mark.parametrize("total", range(3, 12))
@pytest.mark.parametrize("tones", [2, 3])
def test_no_few_patients_follow_from_the_subgroups_number(total, tones):
    """Of no subgroup of so many patients, whoever tries all that its tones could be."""
    alike = {}
    for sizes in product(range(total + 1), repeat=tones):
        if sum(sizes) == total:
            alike.setdefault(told(sizes, 3), []).append(sizes)
    for group in alike.values():
        for of_tone in zip(*group, strict=True):
            assert len(set(of_tone)) > 1 or of_tone[0] == 0 or of_tone[0] >= 3, group


def test_with_the_guard_off_the_missing_one_follows():
    assert found_out(naive, (6, 2), 3) == [1]
    assert found_out(naive, (2, 7), 3) == [0]
    assert not found_out(told, (6, 2), 3)


def test_two_questions_do_not_tell_the_patient_between_them():
    """A patient more than at the last request: her tone's number stays untold."""
    releases = MemoryReleases()
    assert told((45, 20, 12, 10), releases=releases) == (45, 20, 12, 10)
    assert told((45, 20, 12, 10), releases=releases) == (45, 20, 12, 10)
    again = told((46, 20, 12, 10), releases=releases)
    assert again[0] != 46
    assert told((46, 20, 12, 10)) == (46, 20, 12, 10)  # the control: nothing was told before


CPU = torch.device("cpu")


def examples_of(features, labels, *, view=None):
    rows = np.arange(len(labels))
    return Examples(features.astype(np.float16), rows, labels, np.zeros_like(rows), rows, cases=view)


def drawn(n, seed, classes=3, width=6):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1, (n, width)), rng.integers(classes, size=n)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (5, 0.07), (20, 0.5), (40, 0.01)])
def test_probabilities_are_scikit_learns(k, temperature, monkeypatch):
    monkeypatch.setattr(evaluate, "EVALUATION_BATCH", 7)
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
        request = EvaluateRequest(split="test", subgroups=("light", "dark")).model_dump()
        broadcast = Broadcast(client.id, "0-probe", 0, NEIGHBOURS, GLOBAL, {}, request)
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
