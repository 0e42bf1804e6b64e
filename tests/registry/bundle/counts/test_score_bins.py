import numpy as np

from registry.bundle.counts.score_bins import (
    LOGIT_BINS,
    SCORE_BINS,
    malignancy_probability,
    score_bin,
)


def test_bins_are_wide_by_log_odds_and_symmetric():
    edges = LOGIT_BINS.edges
    assert len(LOGIT_BINS) == SCORE_BINS == 320
    inside = np.log(edges[1:-1] / (1 - edges[1:-1]))
    np.testing.assert_allclose(inside[31:-31], np.arange(-8, 8.01, 1 / 16), atol=1e-6)
    np.testing.assert_allclose(inside[-32:], np.arange(8, 15.76, 0.25), rtol=1e-4)
    np.testing.assert_allclose(edges + edges[::-1], 1, atol=1e-12)
    assert edges[160] == 0.5
    assert (edges[0], edges[-1]) == (0, 1)
    assert ((edges[:-1] < LOGIT_BINS.middles) & (LOGIT_BINS.middles < edges[1:])).all()


def test_bins_are_closed_below_and_the_last_one_above():
    assert score_bin(np.array([0.0, 0.4999, 0.5, 0.5156, 0.5157, 1.0])).tolist() == [
        0,
        159,
        160,
        160,
        161,
        319,
    ]
    assert score_bin(LOGIT_BINS.edges[:-1]).tolist() == list(range(320))


def test_scores_that_equal_bins_cannot_tell_apart_are_told_apart():
    """Under 1/500 and over 499/500, where a network is sure."""
    scores = np.array([1e-6, 1e-5, 1e-4, 1e-3, 0.999, 0.9999, 0.99999])
    assert len(set(score_bin(scores).tolist())) == len(scores)
    assert len(set(np.floor(scores * 500).tolist())) == 2


def test_malignancy_is_the_sum_over_malignant_classes():
    probabilities = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    summed = malignancy_probability(probabilities, np.array([True, False, True]))
    np.testing.assert_allclose(summed, [0.7, 0.9])
