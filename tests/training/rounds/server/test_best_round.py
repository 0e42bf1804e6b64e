import numpy as np
import pytest
import torch

from registry.bundle.counts.counting import count
from training.errors import JobError
from training.rounds.server.best_round import BestRound
from training.rounds.server.plan import TrackState


def states(value):
    return {"global": TrackState({"weight": torch.tensor([float(value)])}, {})}


def blocks(right, wrong=0):
    """Counts in two subgroups of answers that are certain."""
    labels = np.zeros(right + wrong, dtype=np.int64)
    answers = np.eye(2)[[0] * right + [1] * wrong]
    half = slice(0, (right + wrong) // 2), slice((right + wrong) // 2, None)
    malignant = np.array([False, True])
    return {
        name: count(answers[part], labels[part], malignant=malignant)
        for name, part in zip(("light", "dark"), half, strict=True)
    }


@pytest.fixture
def best(tmp_path):
    return BestRound(tmp_path, "job")


def test_the_first_of_the_most_accurate_rounds_is_kept(best, tmp_path):
    for round_, right in enumerate((4, 8, 6, 8, 7), start=1):
        best.after_round(round_, states(round_), blocks(right, 10 - right))
    assert best.round == 2
    assert best.weights()["weight"].tolist() == [2]
    assert BestRound(tmp_path, "job").round == 2
    best.forget()
    best.forget()
    assert not list(tmp_path.iterdir())


def test_what_later_rounds_left_before_a_kill_gives_way(best):
    best.after_round(5, states(5), blocks(9, 1))
    best.after_round(4, states(4), blocks(3, 7))
    assert best.round == 4


def test_nothing_counted_is_nothing_to_go_by(best):
    best.after_round(1, states(1), {})
    with pytest.raises(JobError, match="in no round did any client judge the model"):
        best.weights()
    best.after_round(2, states(2), blocks(3, 7))
    best.after_round(3, states(3), {})
    assert best.round == 2
