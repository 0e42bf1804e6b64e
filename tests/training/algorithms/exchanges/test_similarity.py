"""Who resembles whom, worked out by hand for a model of two layers."""

import math

import numpy as np
import pytest
import torch

from tests.drawn_head import draw_head
from training.algorithms.exchanges.base import EMPTY_CONTEXT, ServerContext
from training.algorithms.exchanges.similarity import (
    PredictionSimilarity,
    RandomPeers,
    WeightSimilarity,
    cosines,
    moments,
    scaled,
)
from training.models import build_model
from training.models.classifier import float_state
from training.rounds.server.plan import NoiseProbe

RANDOM = np.random.default_rng(0)


def two_layers(first, second, running=(0.0, 2.0)):
    """A layer of four weights and one of a single one, and a normalisation statistic."""
    return {
        "first.weight": torch.tensor([first[:2], first[2:]]),
        "second.bias": torch.tensor([second]),
        "norm.running_mean": torch.tensor(running),
    }


# By hand: the mean of 1, 2, 3, 6 is 3, its deviation √((4 + 1 + 0 + 9) / 4) = √3.5.
NORTH = two_layers([1.0, 2.0, 3.0, 6.0], 5.0)
SOUTH = two_layers([-1.0, -1.0, 1.0, 1.0], 4.0)  # mean 0, deviation 1
WEST = two_layers([0.0, 0.0, 0.0, 4.0], -5.0)  # mean 1, deviation √3


def profiles_of(similarity, **weights):
    return {name: similarity.profile(given, None, EMPTY_CONTEXT) for name, given in weights.items()}


def test_a_feature_vector_is_mean_and_deviation_of_each_tensor():
    features = moments(NORTH, statistics=False)
    assert features.dtype == torch.float64
    np.testing.assert_allclose(features, [3, math.sqrt(3.5), 5, 0], rtol=1e-6)


def test_statistics_and_accuracy_are_features_where_asked_for():
    both = WeightSimilarity(statistics=True, accuracy=True).profile(NORTH, 0.25, EMPTY_CONTEXT)
    np.testing.assert_allclose(both, [3, math.sqrt(3.5), 1, 1, 5, 0, 0.25], rtol=1e-6)
    assert moments(NORTH, statistics=True).tolist() == both[:-1].tolist()


def test_the_cosines_of_the_plain_text_by_hand():
    similarity = WeightSimilarity(scaled=False)
    names, matrix = similarity.matrix(profiles_of(similarity, south=SOUTH, north=NORTH))
    assert names == ["north", "south"]
    # north (3, √3.5, 5, 0), south (0, 1, 4, 0).
    expected = (math.sqrt(3.5) + 20) / (math.sqrt(9 + 3.5 + 25) * math.sqrt(1 + 16))
    np.testing.assert_allclose(matrix, [[1, expected], [expected, 1]], rtol=1e-6)


def test_scaled_features_and_their_cosines_by_hand():
    similarity = WeightSimilarity()
    names, matrix = similarity.matrix(profiles_of(similarity, north=NORTH, south=SOUTH, west=WEST))
    # Means 3, 0, 1 → 1, 0, 1/3; deviations √3.5, 1, √3; biases 5, 4, -5 → 1, 0.9, 0; deviation 0 for all → 1.
    s = (math.sqrt(3) - 1) / (math.sqrt(3.5) - 1)
    rows = np.array([[1, 1, 1, 1], [0, 0, 0.9, 1], [1 / 3, s, 0, 1]])
    lengths = np.sqrt((rows**2).sum(axis=1))
    assert names == ["north", "south", "west"]
    np.testing.assert_allclose(matrix, rows @ rows.T / np.outer(lengths, lengths), rtol=1e-6)


def test_a_feature_that_is_the_same_for_all_scales_to_one_and_a_row_of_zeros_resembles_nobody():
    np.testing.assert_array_equal(scaled(np.array([[2.0, 7.0], [4.0, 7.0]])), [[0, 1], [1, 1]])
    np.testing.assert_array_equal(cosines(np.array([[0.0, 0.0], [0.0, 3.0]])), [[0, 0], [0, 1]])


def test_predictions_compare_distances_between_answers():
    said = {"a": [0.9, 0.1], "b": [0.5, 0.5], "c": [0.8, 0.2]}

    def answers(weights, pictures):
        assert pictures == 2
        return torch.tensor([said[weights["who"]]] * 2, dtype=torch.float64)

    server_context = ServerContext(
        EMPTY_CONTEXT.put, EMPTY_CONTEXT.get, EMPTY_CONTEXT.validation_accuracy, answers
    )
    similarity = PredictionSimilarity(pictures=2)
    profiles = {name: similarity.profile({"who": name}, None, server_context) for name in said}
    ranked = similarity.rank("a", profiles, RANDOM)
    assert [peer.client for peer in ranked] == ["c", "b"]
    # Two pictures, two classes: √(4 · 0.1²) and √(4 · 0.4²).
    assert [peer.similarity for peer in ranked] == pytest.approx([-0.2, -0.8])


def test_the_noise_probe_shows_all_models_the_same_pictures_and_loads_their_weights(make_job):
    model = draw_head(build_model(make_job().model, 2, seed=1))
    before = {name: tensor.clone() for name, tensor in float_state(model).items()}
    other = float_state(draw_head(build_model(make_job().model, 2, seed=9), seed=9))
    probe = NoiseProbe(model, 16, seed=4)
    first, second, again = (probe.predict(weights, 3) for weights in (before, other, before))
    assert first.shape == (3, 2)
    torch.testing.assert_close(first.sum(dim=1), torch.ones(3, dtype=torch.float64))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    noise = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        torch.testing.assert_close(first, model.eval()(noise).double().softmax(dim=1))
    assert all(torch.equal(tensor, before[name]) for name, tensor in float_state(model).items())


def test_chance_makes_every_order_as_likely_and_follows_from_the_draws():
    profiles = dict.fromkeys("abcd", torch.empty(0, dtype=torch.float64))
    draws = np.random.default_rng(3)
    firsts = [RandomPeers().rank("a", profiles, draws)[0] for _ in range(600)]
    counts = [sum(peer.client == name for peer in firsts) for name in "bcd"]
    np.testing.assert_allclose(counts, 200, atol=4 * math.sqrt(600 * 2 / 9))
    assert firsts[0].similarity is None
    one, two = (RandomPeers().rank("a", profiles, np.random.default_rng(8)) for _ in range(2))
    assert one == two
