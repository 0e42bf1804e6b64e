import pytest

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.fedequal import FedEqual

REPORTS = [
    Report("a", {"light": 30, "dark": 10}, {"light": 0.2, "dark": 5.0}),
    Report("b", {"dark": 50}, {"dark": 1.0}),
    Report("c", {"light": 10}, {"light": 3.0}),
]


def test_clients_weigh_the_same_whatever_they_hold():
    mixture, _ = FedEqual(unit="client").weigh(REPORTS, {})
    assert mixture.clients == pytest.approx(dict.fromkeys("abc", 1 / 3), rel=1e-15)


def test_subgroups_weigh_the_same_and_are_shared_by_those_who_hold_them():
    mixture, _ = FedEqual().weigh(REPORTS, {})
    # light: 30 at a, 10 at c; dark: 10 at a, 50 at b.
    expected = {"a": 30 / 40 / 2 + 10 / 60 / 2, "b": 50 / 60 / 2, "c": 10 / 40 / 2}
    assert mixture.clients == pytest.approx(expected, rel=1e-15)
