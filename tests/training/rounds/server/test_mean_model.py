import numpy as np
import pytest
import torch

from training.errors import CheckpointError
from training.rounds.server.mean_model import MeanModel
from training.rounds.server.plan import TrackState

MODELS = [np.array([1.0, -3.0]), np.array([0.5, 7.0]), np.array([-2.0, 0.25]), np.array([4.0, 1.0])]


def states(value, count=0):
    weights = {"weight": torch.tensor(value, dtype=torch.float32), "batches": torch.tensor(count)}
    return {"global": TrackState(weights, {})}


def after_round(mean, round_, value=None):
    mean.after_round(round_, states(MODELS[round_ - 1] if value is None else value, round_), {})


def weights_after(mean, rounds):
    return mean.weights(rounds, last=states(MODELS[rounds - 1], rounds)["global"].weights)


@pytest.fixture
def mean(tmp_path):
    return MeanModel(tmp_path, "job")


def test_it_is_the_mean_over_all_rounds_and_whole_numbers_are_the_last_rounds(mean):
    for round_ in range(1, 5):
        after_round(mean, round_)
    found = weights_after(mean, 4)
    np.testing.assert_allclose(found["weight"], np.mean(MODELS, axis=0), rtol=1e-7)
    assert found["weight"].dtype == torch.float32
    assert found["batches"].item() == 4
    assert found["batches"].dtype == torch.int64


def test_it_is_exact_where_single_precision_would_lose_small_parts(mean):
    for round_, value in enumerate((2.0**25, 1.0, 1.0, -(2.0**25)), start=1):
        mean.after_round(round_, states([value]), {})
    assert mean.weights(4, last=states([0.0])["global"].weights)["weight"].item() == 0.5


@pytest.mark.parametrize("again", [[4], [3, 4], [4, 4], [3, 3, 4]])
def test_rounds_that_are_done_again_count_once(mean, tmp_path, again):
    for round_ in (1, 2, 3, 4):
        after_round(mean, round_)
    undisturbed = weights_after(mean, 4)
    resumed = MeanModel(tmp_path, "job")
    for round_ in again:
        after_round(resumed, round_)
    assert torch.equal(weights_after(resumed, 4)["weight"], undisturbed["weight"])


def test_what_a_round_gave_before_it_was_done_again_with_other_clients_is_forgotten(mean):
    after_round(mean, 1)
    after_round(mean, 2, np.array([100.0, 100.0]))
    after_round(mean, 2)
    np.testing.assert_allclose(weights_after(mean, 2)["weight"], np.mean(MODELS[:2], axis=0))


def test_a_sum_that_is_gone_is_told(mean, tmp_path):
    after_round(mean, 1)
    mean.forget()
    assert not list(tmp_path.iterdir())
    mean.forget()
    with pytest.raises(CheckpointError, match=r"sum-000001.* is gone, .* start the run anew"):
        after_round(mean, 2)
