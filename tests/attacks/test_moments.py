"""Sums of features for a projection, held against others of the same features: no few patients are left."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from personalization.stages.calibration_answers import embedding_sums
from registry.bundle.model import Outputs
from tests.attacks.hospitals import classes_of
from training.algorithms.client import Client, ClientFeatures, FeatureMemory, HeadRows, MemoryReleases
from training.data.dataset import Examples
from training.errors import DataError, MessageError
from training.messages import GLOBAL, Broadcast
from training.models.several_encoders import Encoders, principal
from training.rounds.client import head_gradient
from training.rounds.client.embed import answer_moments, raw_place
from training.rounds.client.head_gradient import answer_spread
from training.rounds.requests import MASS, MOMENTS, SPREAD, SUM

LEAST, WIDTH, STAGE = 6, 4, "0-federate"
LABELS = np.repeat([0, 1, 2, -1], [40, 30, 3, 2])  # a rare class, and two pictures without a label
FEATURES = np.random.default_rng(0).normal(size=(len(LABELS), WIDTH)).astype(np.float32)
NAMES = np.random.default_rng(1).integers(-(2**62), 2**62, (len(LABELS), 2))


def hospital(releases, without=(), least=LEAST, *, masked=True):
    """One with all these patients but some, a picture each, whose features have been made."""
    rows = np.setdiff1d(np.arange(len(LABELS)), without)
    shown = Examples(FEATURES, rows, LABELS[rows], 0 * rows, rows, names=NAMES[rows])
    dataset = SimpleNamespace(labels=classes_of(3), subgroups=(), examples=lambda client, split: shown)
    several = Encoders.__new__(Encoders)
    nn.Module.__init__(several)
    several.widths = (WIDTH,)
    model = SimpleNamespace(model=SimpleNamespace(encoder=several), device="cpu")
    made = ClientFeatures(FEATURES[rows], rows)
    memory = FeatureMemory(held={("north", raw_place(STAGE), "train"): ("", made)})
    return Client("north", 0, least, dataset, None, model, releases=releases, features=memory, masked=masked)


def moments(client, options=None):
    asked = Broadcast(
        "north", STAGE, 0, MOMENTS, GLOBAL, {}, {"split": "train"} if options is None else options
    )
    told = answer_moments(asked, client).tensors
    return np.array([*told[MASS], *told[f"{SUM}0"]])


def spread(client):
    asked = Broadcast("north", STAGE, 0, SPREAD, GLOBAL, {}, {"split": "train"})
    told = answer_spread(asked, client).tensors
    return np.array([told[MASS].sum(), *told[SUM]])


class AsTheyAre:
    """A model whose embedding is linear in the raw features: here they themselves."""

    head = SimpleNamespace(num_features=WIDTH)

    def run(self, examples):
        shown = examples.images[examples.rows]
        return Outputs(shown, shown, shown)


def calibration(client):
    told = embedding_sums(AsTheyAre(), client, "train")
    return np.array([told.pictures.sum(), *told.sums.sum(axis=0)])


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    def made(stage, client, examples):
        shown = torch.from_numpy(examples.images[examples.rows]).double()
        return HeadRows(shown, torch.from_numpy(examples.labels), torch.ones(len(shown)).double())

    monkeypatch.setattr(head_gradient, "make_rows", made)


ASKED = {"moments": moments, "spread": spread, "calibration": calibration}
ORDERS = [(ASKED[one], ASKED[other]) for one, other in permutations(ASKED, 2)]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: f"{order[0].__name__} {order[1].__name__}")
def test_two_sums_of_one_hospital_do_not_tell_a_rare_class_or_the_unlabelled(order):
    releases = MemoryReleases()
    first, second = (ask(hospital(releases)) for ask in order)
    apart = abs(first[0] - second[0])
    assert apart == 0 or apart >= LEAST
    assert max(first[0], second[0]) >= 70


@pytest.mark.parametrize(("ask", "few"), [(moments, [70, 71, 72]), (spread, [70, 71, 72])])
def test_control_of_hospitals_that_keep_no_account(ask, few):
    """What the account holds back: the sum of the rare class, to the last digit."""
    apart = ask(hospital(MemoryReleases())) - calibration(hospital(MemoryReleases()))
    assert apart[0] == len(few)
    np.testing.assert_allclose(apart[1:], FEATURES[few].sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("kept", [True, False], ids=["account", "control"])
def test_sums_with_and_without_a_patient_do_not_leave_both(kept):
    known = MemoryReleases()
    first = moments(hospital(known, without=[5]))
    second = moments(hospital(known if kept else MemoryReleases()))
    if kept:
        np.testing.assert_array_equal(first, second)
    else:
        np.testing.assert_allclose((second - first)[1:], FEATURES[5], atol=1e-5)


@pytest.mark.parametrize("least", [LEAST, 1])
def test_few_pictures_without_a_label_are_in_no_sum(least):
    """Control: of one patient each, in a job where that may be told."""
    assert moments(hospital(MemoryReleases(), least=least))[0] == (73 if least == LEAST else 75)


@pytest.mark.parametrize("options", [{}, {"split": "test"}, {"split": "train", "subgroups": ["dark"]}])
def test_a_coordinator_chooses_no_pictures(options):
    with pytest.raises(MessageError, match="split: train"):
        moments(hospital(MemoryReleases()), options)


def test_a_sum_of_nothing_projects_nothing():
    nothing = torch.zeros(WIDTH).double(), torch.zeros(WIDTH * (WIDTH + 1) // 2).double()
    with pytest.raises(MessageError, match="no spread"):
        principal(0, *nothing, 2)


def test_a_matrix_of_no_more_pictures_than_features_stays_in_the_clear():
    """It spans what its pictures do: whose features lie within is among them. Control: of more, all do."""
    few, more = np.arange(WIDTH, len(LABELS)), np.arange(2 * WIDTH, len(LABELS))
    with pytest.raises(DataError, match="of 4 pictures"):
        moments(hospital(MemoryReleases(), without=few, least=1, masked=False))
    assert moments(hospital(MemoryReleases(), without=few, least=1))[0] == WIDTH
    assert moments(hospital(MemoryReleases(), without=more, least=1, masked=False))[0] == 2 * WIDTH
    inside = [
        np.linalg.matrix_rank(np.vstack([FEATURES[:n], FEATURES[-1:]])) == min(n, WIDTH) for n in (3, 8)
    ]
    assert inside == [False, True]
