"""What must be shown before a personal model takes the global one's place."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from personalization.selection import ProofConfig, SelectionConfig, prove, select, with_proofs
from personalization.stages import personal_models
from personalization.stages.personal_models import answer_compare, read_paired
from registry.bundle.lesion_counts import PairedCounts
from tests.personalization.conftest import LABELS
from training.errors import MessageError
from training.messages import Broadcast
from training.rounds.requests import COMPARE, EvaluateRequest

MALIGNANT, BENIGN = 1, 0


def two_classes(benign, malignant):
    """Paired counts of benign and malignant pictures, each n, gained and lost."""
    n, gained, lost = np.array([benign, malignant, malignant, benign], dtype=np.int64).T
    return PairedCounts(n, gained, lost, n)


def proven(benign, malignant, epochs=4, **config):
    """The proof of an epoch."""
    return prove(two_classes(benign, malignant), 3, epochs, ProofConfig(**config), has_malignancy=True)


def test_an_epoch_that_finds_a_third_of_what_was_found_is_refused_however_accurate_it_is():
    """Malignant sensitivity on dark skin 0.857 -> 0.333, 18 and 7 of 21, while accuracy rises."""
    accuracies = {"dark": {0: 0.70, 1: 0.78}, "light": {0: 0.75, 1: 0.75}}
    selection = select(accuracies, SelectionConfig())
    assert selection.epochs["dark"] == 1, "the control: by accuracy it is taken"
    proof = prove(two_classes((79, 25, 1), (21, 0, 11)), 1, 1, ProofConfig(), has_malignancy=True)
    assert not proof.holds
    kept = with_proofs(selection, accuracies, {"dark": proof})
    assert kept.epochs == {"dark": 0, "light": 0}
    assert kept.accuracies == {"dark": 0.70, "light": 0.75}
    assert kept.proofs["dark"].gains["malignant_sensitivity"].value == pytest.approx(-11 / 21)
    for word in ("Of dark, epoch 1 is not taken", "malignant sensitivity -52.4 points", "11 lost of 21"):
        assert word in kept.explanation


def test_a_gain_that_many_pictures_show_is_taken():
    proof = proven(benign=(200, 30, 2), malignant=(200, 24, 1))
    assert proof.holds
    assert "a gain is shown: malignant sensitivity +11.5 points (24 gained and 1 lost of 200)" in proof.reason
    assert set(proof.gains) == {"malignant_sensitivity", "balanced_accuracy"}


def test_the_same_gain_on_few_pictures_is_not():
    proof = proven(benign=(20, 3, 0), malignant=(20, 2, 0))
    assert not proof.holds
    assert "a loss of more than 5 points is not excluded" in proof.reason


def test_a_better_accuracy_that_costs_sensitivity_is_refused():
    gained = {"benign": (300, 90, 0), "malignant": (300, 5, 25)}
    proof = proven(**gained)
    assert proof.gains["balanced_accuracy"].low > 0
    assert not proof.holds
    assert "malignant sensitivity -6.7 points" in proof.reason
    assert proven(**gained, margin=0.2).holds, "the control: with a wide margin the gain counts"


def test_no_change_is_no_gain():
    proof = proven(benign=(400, 4, 4), malignant=(400, 4, 4))
    assert not proof.holds
    assert "no gain is shown" in proof.reason


def test_more_epochs_ask_for_more():
    some = {"benign": (150, 12, 2), "malignant": (150, 12, 2)}
    assert proven(**some, epochs=1).holds
    assert not proven(**some, epochs=200).holds


def test_without_malignant_pictures_harm_is_not_excluded():
    proof = proven(benign=(300, 90, 0), malignant=(0, 0, 0))
    assert not proof.holds
    assert "malignant sensitivity: no such validation pictures" in proof.reason
    counts = two_classes((300, 90, 0), (0, 0, 0))
    assert prove(counts, 1, 1, ProofConfig(), has_malignancy=False).holds, "nobody asks for malignancy there"


def test_where_nobody_could_compare_the_global_model_stays():
    proof = prove(PairedCounts.zeros(2), 2, 3, ProofConfig(), has_malignancy=True)
    assert not proof.holds
    assert "no hospital could tell" in proof.reason


def test_each_fold_is_answered_by_the_models_without_it(monkeypatch):
    """Models that give one answer to all: the second gains one lesion and loses two of each class."""
    said = {"0/before/": 0, "0/after/": 1, "1/before/": 1, "1/after/": 0}
    folds = {"dark/0": ([0, 0, 1], [7, 8, 9]), "dark/1": ([1, 1], [4, 5])}
    parts = {
        name: SimpleNamespace(labels=np.array(labels), lesions=np.array(lesions))
        for name, (labels, lesions) in folds.items()
    }
    loaded = {}
    client = SimpleNamespace(
        id="north",
        noisy=False,
        crossfit=2,
        dataset=SimpleNamespace(labels=LABELS),
        local_model=SimpleNamespace(load=loaded.update),
    )
    monkeypatch.setattr(personal_models, "sendable", lambda *asked, in_folds: parts if in_folds else {})
    monkeypatch.setattr(
        personal_models, "predict", lambda model, part: np.eye(3)[[int(loaded["w"])] * len(part.labels)]
    )
    tensors = {f"{name}w": torch.tensor(answer) for name, answer in said.items()}
    options = EvaluateRequest(split="train", subgroups=("dark",)).model_dump()
    asked = Broadcast("north", "1-personalize", 0, COMPARE, "dark", tensors, options)
    counts = read_paired(answer_compare(asked, client, in_folds=True), 3)
    assert [each[:2].tolist() for each in (counts.n, counts.gained, counts.lost)] == [[2, 3], [0, 1], [2, 2]]
    with pytest.raises(MessageError, match=r"of a job that has folds \(data.crossfit\)"):
        answer_compare(asked, SimpleNamespace(**{**vars(client), "crossfit": None}), in_folds=True)
    with pytest.raises(MessageError, match="its counts get noise"):
        answer_compare(asked, SimpleNamespace(**{**vars(client), "noisy": True}), in_folds=True)
