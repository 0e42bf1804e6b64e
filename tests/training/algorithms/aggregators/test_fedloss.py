import pytest

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.fedloss import FedLoss


def test_weights_are_in_proportion_to_the_losses():
    reports = [
        Report("a", {"light": 1}, {"light": 0.5}),
        Report("b", {"dark": 900}, {"dark": 2.0}),
        Report("c", {"medium": 40}, {"medium": 1.5}),
    ]
    mixture, _ = FedLoss().weigh(reports, {})
    assert mixture.clients == pytest.approx({"a": 0.125, "b": 0.5, "c": 0.375}, rel=1e-15)


def test_losses_that_are_all_zero_give_equal_weights():
    reports = [Report("a", {"light": 3}, {"light": 0.0}), Report("b", {"dark": 5}, {"dark": 0.0})]
    assert FedLoss().weigh(reports, {})[0].clients == {"a": 0.5, "b": 0.5}
