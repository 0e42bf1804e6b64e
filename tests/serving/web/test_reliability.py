"""The reliability diagram's marks, against counts made by hand."""

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import ScoreHistograms
from serving.web.operator_page import LEAST, reliability


def histograms(confidences, right):
    """Of answers with these confidences, right or wrong."""
    probabilities = np.stack([np.array(confidences), 1 - np.array(confidences)], axis=1)
    labels = np.where(right, 0, 1)
    return ScoreHistograms.from_counts(count(probabilities, labels, malignant=np.array([True, False])).point)


def test_a_mark_is_the_mean_confidence_and_the_share_that_was_right():
    marks = reliability(histograms([0.95] * 20 + [0.75] * 12, [True] * 15 + [False] * 5 + [True] * 12))
    assert [mark.n for mark in marks] == [12, 20]
    assert [mark.right for mark in marks] == [1.0, 0.75]
    assert [mark.confidence for mark in marks] == pytest.approx(
        [0.75, 0.95], abs=0.03
    )  # half a bin of log-odds
    low, high = marks[1].interval
    assert (low, high) == pytest.approx((0.531, 0.888), abs=0.002)  # Wilson's for 15 of 20


def test_bins_with_few_pictures_are_not_drawn():
    assert reliability(histograms([0.95] * (LEAST - 1), [True] * (LEAST - 1))) == []


def test_bundles_that_do_not_tell_what_was_right_have_no_marks():
    told = histograms([0.95] * 20, [True] * 20)
    assert reliability(told.model_copy(update={"right": None})) == []
