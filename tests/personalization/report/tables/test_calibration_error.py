"""ECE and MCE of one filled bin are |confidence − share right|, before and after."""

from dataclasses import replace

import numpy as np
import pytest

from personalization.report.calibration import calibration_error_table
from personalization.report.data import StageFacts
from registry.bundle.counts.counting import count
from registry.bundle.counts.score_bins import LOGIT_BINS


@pytest.fixture
def at():
    """`at(confidence, right, wrong)`: so many answers at one confidence."""

    def make(confidence, right, wrong):
        labels = np.zeros(right + wrong, dtype=int)
        answers = np.where(np.arange(right + wrong) < right, 0, 1)
        probabilities = np.full((right + wrong, 2), 1 - confidence)
        probabilities[np.arange(right + wrong), answers] = confidence
        return count(probabilities, labels, malignant=np.array([True, False]))

    return make


def off(confidence, right):
    """How far answers of this confidence, stated as the middle of its bin, are from the share right."""
    stated = LOGIT_BINS.middles[LOGIT_BINS.bin(np.array(confidence))]
    assert abs(stated - confidence) < 0.01
    return f"{abs(stated - right):.3f}"


def of_stages(report, counts, kinds):
    data = report(counts=counts)
    return replace(data, facts=[StageFacts(name, kind, {}) for name, kind in kinds.items()])


def test_both_errors_before_and_after_by_hand(report, at):
    # 30 of 40 right: stated as the middle of a bin, some 0.9 is off by 0.15 and 0.76 by 0.01.
    before = {"light": at(0.9001, 30, 10), "dark": at(0.9001, 10, 10)}
    after = {"light": at(0.7601, 30, 10), "dark": at(0.7601, 10, 10)}
    stages = {"federate": "federate", "calibrate": "calibrate"}

    table = calibration_error_table(of_stages(report, {"federate": before, "calibrate": after}, stages))

    light, dark, everything = ([cell.text for cell in row.cells] for row in table.rows)
    assert table.columns == ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after")
    assert light == ["40", off(0.9001, 0.75), off(0.7601, 0.75), off(0.9001, 0.75), off(0.7601, 0.75)]
    assert dark == ["20", off(0.9001, 0.5), off(0.7601, 0.5), off(0.9001, 0.5), off(0.7601, 0.5)]
    assert everything[0] == "60"
    assert table.rows[-1].is_total
    assert "after federate and after calibrate" in table.caption


def test_before_is_the_stage_right_before_the_last_calibration(report, at):
    counts = {
        "federate": {"light": at(0.6001, 20, 20)},
        "1-calibrate": {"light": at(0.7001, 20, 20)},
        "2-calibrate": {"light": at(0.8001, 20, 20)},
    }
    stages = {"federate": "federate", "1-calibrate": "calibrate", "2-calibrate": "calibrate"}

    table = calibration_error_table(of_stages(report, counts, stages))

    assert [cell.text for cell in table.rows[0].cells][1:3] == [off(0.7001, 0.5), off(0.8001, 0.5)]
