"""A picture is counted in the very bin that the bundle's own histogram is coarsened into."""

import bisect

import numpy as np
import pytest

from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.model import DISTANCE_BINS, distance_bin, upper_edge
from serving.monitoring.drift_counting import (
    DISTANCE_EDGES,
    LOG_ODDS_EDGES,
    coarse_distances,
    coarse_scores,
    distance_values,
    log_odds_values,
)


def distance_value(place: int, threshold: int) -> float:
    return distance_values(np.array([place]), threshold)[0]


def kept(value: float, edges: tuple[float, ...]) -> int:
    """The bin that Prometheus counts a value in: the first whose end is not below it."""
    return bisect.bisect_left(edges, value)


def test_a_score_is_counted_where_its_bin_goes():
    edges = (*LOG_ODDS_EDGES, np.inf)
    for place, middle in enumerate(LOGIT_BINS.middles):
        one = np.zeros(len(LOGIT_BINS), dtype=int)
        one[place] = 7
        counted = kept(log_odds_values(np.array([middle]))[0], edges)
        assert coarse_scores(one).tolist() == [7 * (k == counted) for k in range(len(edges))]


@pytest.mark.parametrize("threshold", [0, 700, 1201, DISTANCE_BINS - 2])
def test_a_distance_is_counted_where_its_bin_goes(threshold):
    every = np.arange(1, DISTANCE_BINS + 1)
    counted = np.zeros(len(DISTANCE_EDGES) + 1, dtype=int)
    for place in range(DISTANCE_BINS):
        counted[kept(distance_value(place, threshold), DISTANCE_EDGES)] += every[place]
    assert coarse_distances(every, threshold).tolist() == counted.tolist()


@pytest.mark.parametrize("threshold", [5, 900, 2000])
def test_from_one_on_a_distance_is_unfamiliar(threshold):
    edge = upper_edge(threshold)
    for distance in (edge * 0.5, edge * 0.9999, edge, edge * 1.0001, edge * 2):
        place = int(distance_bin(np.array(distance)))
        assert (distance_value(place, threshold) > 1) == (place > threshold)
    assert 1.0 in DISTANCE_EDGES
    assert list(DISTANCE_EDGES) == sorted(DISTANCE_EDGES)
