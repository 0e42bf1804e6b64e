"""What a subgroup gets from its thresholds, with intervals."""

import numpy as np
import pytest

from personalization.calibration.abstention import AbstentionThreshold
from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.stages.calibrate import Fit, served_figures
from registry.bundle.counts.count import SCORE_BINS, count


def fit(set_bin, answer_bin):
    return Fit(
        Temperature(1.0, 1.0, 50),
        ConformalThreshold(set_bin, 0.9, 50, 46),
        AbstentionThreshold(answer_bin, 0.1, 0.05, 0.8, 50),
    )


@pytest.fixture
def block():
    """Of 40 pictures of the first class, 30 have probability 0.8 for it, 6 have 0.6, and 4 have 0.3."""
    first = np.repeat([0.8, 0.6, 0.3], [30, 6, 4])
    probabilities = np.stack([first, 1 - first], axis=1)
    return count(probabilities, np.zeros(40, int), malignant=np.array([True, False]), replicates=50, seed=3)


def test_by_hand(block):
    told = served_figures(block, fit(set_bin=250, answer_bin=325))  # 0.5 and 0.65
    assert told["coverage"] == pytest.approx(36 / 40)
    assert told["set_size"] == 1
    assert told["reported"] == pytest.approx(34 / 40)  # 0.8 right, and 0.7 wrong
    assert told["reported_risk"] == pytest.approx(4 / 34)
    for name in ("coverage", "reported", "reported_risk"):
        low, high = told["intervals"][name]
        assert 0 <= low < told[name] < high <= 1


def test_full_coverage_is_not_certain(block):
    told = served_figures(block, fit(set_bin=0, answer_bin=0))
    assert (told["coverage"], told["set_size"], told["reported"]) == (1, 2, 1)
    assert told["intervals"]["coverage"] == pytest.approx([0.025 ** (1 / 40), 1])


def test_nothing_reported_has_no_risk(block):
    told = served_figures(block, fit(set_bin=250, answer_bin=SCORE_BINS))
    assert told["reported"] == 0
    assert told["reported_risk"] is told["intervals"]["reported_risk"] is None
