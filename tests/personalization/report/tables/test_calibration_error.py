"""ECE and MCE of one filled bin are |confidence − share right|, before and after."""

from dataclasses import replace

import numpy as np
import pytest

from personalization.report import StageFacts
from personalization.report.tables.calibration_error import calibration_error_table
from registry.bundle.counts.count import count


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


def of_stages(report, counts, kinds):
    data = report(counts=counts)
    return replace(data, facts=[StageFacts(name, kind, {}) for name, kind in kinds.items()])


def test_both_errors_before_and_after_by_hand(report, at):
    # 30 of 40 right: at 0.901 the error is 0.151, at 0.761 it is 0.011; the middles of bins of 1/500.
    before = {"light": at(0.9001, 30, 10), "dark": at(0.9001, 10, 10)}
    after = {"light": at(0.7601, 30, 10), "dark": at(0.7601, 10, 10)}
    stages = {"federate": "federate", "calibrate": "calibrate"}

    table = calibration_error_table(of_stages(report, {"federate": before, "calibrate": after}, stages))

    light, dark, everything = ([cell.text for cell in row.cells] for row in table.rows)
    assert table.columns == ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after")
    assert light == ["40", "0.151", "0.011", "0.151", "0.011"]
    assert dark == ["20", "0.401", "0.261", "0.401", "0.261"]
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

    assert [cell.text for cell in table.rows[0].cells][1:3] == ["0.201", "0.301"]


def test_a_subgroup_that_was_not_judged_before_has_no_figure_before(report, at):
    counts = {"federate": {"light": at(0.9001, 30, 10)}, "calibrate": {"dark": at(0.9001, 30, 10)}}
    stages = {"federate": "federate", "calibrate": "calibrate"}

    dark, _ = calibration_error_table(of_stages(report, counts, stages)).rows

    assert [cell.text for cell in dark.cells] == ["40", "–", "0.151", "–", "0.151"]


@pytest.mark.parametrize("kinds", [{"federate": "federate"}, {"calibrate": "calibrate"}])
def test_without_a_stage_before_a_calibration_there_is_no_table(report, at, kinds):
    counts = {name: {"light": at(0.9001, 30, 10)} for name in kinds}

    assert calibration_error_table(of_stages(report, counts, kinds)) is None
