import pytest

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.fedavg import FedAvg

REPORTS = [
    Report("a", {"light": 30, "dark": 10}, {"light": 0.2, "dark": 5.0}),
    Report("b", {"dark": 50}, {"dark": 1.0}),
    Report("c", {"light": 10}, {"light": 3.0}),
]


def test_clients_weigh_as_much_as_they_hold():
    mixture, _ = FedAvg().weigh(REPORTS, {})
    assert mixture.clients == pytest.approx({"a": 0.4, "b": 0.5, "c": 0.1}, rel=1e-15)
    assert mixture.previous == 0


def test_weights_are_renormalised_over_those_who_answered():
    mixture, _ = FedAvg().weigh([REPORTS[0], REPORTS[2]], {})
    assert mixture.clients == pytest.approx({"a": 0.8, "c": 0.2}, rel=1e-15)
