"""A coordinator that sends models of its own making in place of those without a fold, to find few patients.

A constant in place of every model but one leaves the sum over one fold: its histogram, its gradient. So a
fold has as many patients as anything that is told, runs are merged within one, and the account holds each.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from personalization.calibration.at_thresholds import read_counts
from personalization.stages.calibration_answers import MALIGNANCY, answer_in_view
from registry.bundle.labels import kinds_of
from registry.bundle.model import Outputs
from registry.bundle.score_bins import SCORE_BINS
from tests.attacks.hospitals import classes_of
from training.algorithms import client as clients
from training.algorithms.client import Client, HeadRows, MemoryReleases
from training.data.dataset import Examples
from training.errors import MessageError
from training.messages import GLOBAL, Broadcast
from training.rounds.client import disclosure, head_gradient
from training.rounds.client.disclosure import as_they_are
from training.rounds.client.head_gradient import answer_gradient, head_rows
from training.rounds.requests import BIAS, GRADIENT, SPREAD, WEIGHT, EvaluateRequest

LEAST, FOLDS, SUBGROUPS = 6, 5, ("dark", "light")
TRAIN = {"split": "train"}


def draw_patients(dark=26, light=70):
    rng = np.random.default_rng(4)
    n = dark + light
    names = rng.integers(-(2**62), 2**62, (n, 2))
    subgroups = np.repeat([0, 1], [dark, light])
    images = rng.random((n, 6)).astype(np.float32)  # features, the last of them the score
    return Examples(images, np.arange(n), rng.integers(0, 2, n), subgroups, np.arange(n), names=names)


def hospital(shown, crossfit=FOLDS, releases=None):
    dataset = SimpleNamespace(labels=classes_of(2), subgroups=SUBGROUPS, examples=lambda client, split: shown)
    known = MemoryReleases() if releases is None else releases
    model = SimpleNamespace(model=SimpleNamespace(eval=lambda: None), device="cpu")
    return Client("north", 0, LEAST, dataset, None, model, releases=known, crossfit=crossfit, masked=True)


class Sent:
    """What is sent: the score in one fold, a constant in the others."""

    def __init__(self, target, constant):
        self.target, self.constant = target, constant

    def run(self, part):
        score = np.where(part.folds == self.target, part.images[part.rows, -1], self.constant)
        probabilities = np.column_stack([1 - score, score]).astype(np.float32)
        return Outputs(probabilities, np.log(probabilities), part.images[part.rows])


def histogram(client, target, constant):
    request = EvaluateRequest(split="train", subgroups=("dark",))
    asked = Broadcast("north", "3-calibrate", 0, MALIGNANCY, GLOBAL, {}, {})
    answer = answer_in_view(asked, request, client, Sent(target, constant), as_they_are)
    return read_counts(answer, MALIGNANCY, (1, 1 + len(kinds_of(client.dataset.labels)), SCORE_BINS))[0]


def fewest_told(client):
    """The fewest patients of one fold that a coordinator reads from a run, over folds and constants.

    It knows how many of each side are in other folds, and takes them off the bin that has the constant.
    """
    part, found = client.examples("train", "dark"), []
    for target in np.unique(part.folds).tolist():
        others = np.bincount(part.labels[part.folds != target], minlength=2)
        for constant in np.linspace(0.02, 0.98, 25):
            told = histogram(client, target, constant)
            told[[0, 1], told.argmax(axis=1)] -= others
            assert told.min() >= 0, "the constant's bins have all of them"
            found += runs_of(told)
    return min(found)


def runs_of(told):
    """Patients of each run: the malignant ones are at its lowest score, the others at its highest."""
    found, begun = [], 0
    for others, malignant in told.T.tolist():
        if others:
            found.append(begun + others)
            begun = 0
        if malignant:
            found += [begun] if begun else []
            begun = malignant
    return [*found, begun] if begun else found


def test_no_bin_tells_few_patients_of_one_fold(monkeypatch):
    """Control: runs over all folds, whose members are drawn without regard to subgroups."""
    assert fewest_told(hospital(draw_patients())) >= LEAST / 2
    monkeypatch.setattr(disclosure, "by_fold", lambda parts: parts)
    monkeypatch.setattr(
        clients, "in_folds", lambda examples, *rest: replace(examples, folds=examples.people % FOLDS)
    )
    assert fewest_told(hospital(draw_patients())) < LEAST / 2


def rows_for(client):
    """What a linear head takes of a hospital's patients: their features."""

    def rows(stage, client, examples):
        n = len(examples)
        features = torch.from_numpy(examples.images[examples.rows]).double()
        return HeadRows(
            features,
            torch.from_numpy(examples.labels),
            torch.ones(n).double(),
            torch.from_numpy(examples.folds),
        )

    return rows


def gradients(client, weight, bias):
    sent = {WEIGHT: weight, BIAS: bias}
    return answer_gradient(Broadcast("north", "0-federate", 0, GRADIENT, GLOBAL, sent, TRAIN), client).tensors


@pytest.fixture
def features(monkeypatch):
    monkeypatch.setattr(head_gradient, "make_rows", rows_for(None))


def test_heads_that_begin_together_are_refused(features, monkeypatch):
    """Control: without the refusal their gradients' difference is the sum of one fold's features by class."""
    client = hospital(draw_patients())
    weight, bias = torch.zeros(1 + FOLDS, 2, 6).double(), torch.zeros(1 + FOLDS, 2).double()
    with pytest.raises(MessageError, match="two are the same"):
        gradients(client, weight, bias)
    for some, few in ((weight[:3], bias[:3]), (weight[0], bias[0]), (weight, bias[:, :1])):
        with pytest.raises(MessageError, match=f"its job has {1 + FOLDS} of 2 classes"):
            gradients(client, some, few)
    apart = torch.randn(weight.shape, dtype=torch.float64)
    assert gradients(client, apart, bias)[WEIGHT].shape == weight.shape
    monkeypatch.setattr(head_gradient, "refuse_heads", lambda *asked: None)
    told = gradients(client, weight, bias)[WEIGHT]
    examples = client.examples("train")
    fold = examples.where(examples.folds == 2)
    of_class = fold.where(fold.labels == 0)
    expected = fold.images[fold.rows].sum(axis=0) / 2 - of_class.images[of_class.rows].sum(axis=0)
    np.testing.assert_allclose((told[0] - told[3])[0].numpy(), expected, atol=1e-6)
    assert all((examples.folds == k).sum() >= LEAST for k in np.unique(examples.folds))


@pytest.mark.parametrize("forgets", [False, True], ids=["attack", "control"])
def test_folds_that_differ_by_one_patient_do_not_leave_both(features, monkeypatch, forgets):
    """As of folds that are drawn anew; a hospital that forgets tells both, and so that patient's features."""
    shown, releases = draw_patients(), MemoryReleases()
    real = clients.in_folds

    def moved(examples, *rest):
        found = real(examples, *rest)
        folds = found.folds.copy()
        one = np.flatnonzero(folds == 0)[0]
        folds[one] = 1
        return replace(found, folds=folds)

    def rows(known):
        asked = Broadcast("north", "0-federate", 0, SPREAD, GLOBAL, {}, TRAIN)
        return len(head_rows(asked, hospital(shown, releases=known)).rows)

    assert rows(releases) == 96
    assert rows(releases) == 96  # the same again tells nothing new
    monkeypatch.setattr(clients, "in_folds", moved)
    again = rows(MemoryReleases() if forgets else releases)
    assert again == 96 if forgets else again < 96 - LEAST
