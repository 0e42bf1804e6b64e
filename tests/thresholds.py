"""Thresholds on scores, for tests."""

from math import exp

import numpy as np

from registry.bundle.counts.score_bins import LOGIT_BINS


def at_log_odds(log_odds: float) -> int:
    """The score bin that begins at these log-odds, a multiple of a quarter."""
    place = int(LOGIT_BINS.bin(np.array(logistic(log_odds) + 1e-9)))
    assert abs(LOGIT_BINS.lower(place) - logistic(log_odds)) < 1e-9
    return place


def logistic(log_odds: float) -> float:
    """The probability of these log-odds."""
    return 1 / (1 + exp(-log_odds))
