"""FedAvg and the rules of Xu et al. (2023) against hand-computed weights."""

import numpy as np
import pytest

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.weighting import FedAuto, FedAvg, FedEqual, FedExp, FedLoss

REPORTS = [
    Report("a", {"light": 30, "dark": 10}, {"light": 0.2, "dark": 5.0}),
    Report("b", {"dark": 50}, {"dark": 1.0}),
    Report("c", {"light": 10}, {"light": 3.0}),
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (FedAvg(), {"a": 0.4, "b": 0.5, "c": 0.1}),  # as much as they hold
        (FedEqual(unit="client"), dict.fromkeys("abc", 1 / 3)),
        # Light: 30 at a, 10 at c; dark: 10 at a, 50 at b.
        (FedEqual(), {"a": 30 / 40 / 2 + 10 / 60 / 2, "b": 50 / 60 / 2, "c": 10 / 40 / 2}),
    ],
    ids=["pictures", "clients", "subgroups"],
)
def test_clients_weigh_by_pictures_alike_or_by_subgroups_that_weigh_the_same(rule, expected):
    aggregation, _ = rule.aggregate(REPORTS, {})
    assert aggregation.clients == pytest.approx(expected, rel=1e-15)
    assert aggregation.previous == 0


def test_losses_that_are_all_zero_give_equal_weights():
    reports = [Report("a", {"light": 3}, {"light": 0.0}), Report("b", {"dark": 5}, {"dark": 0.0})]
    assert FedLoss().aggregate(reports, {})[0].clients == {"a": 0.5, "b": 0.5}


def test_losses_of_a_thousand_do_not_overflow():
    reports = [Report("a", {"light": 3}, {"light": 1000.0}), Report("b", {"dark": 5}, {"dark": 1001.0})]
    aggregation, _ = FedExp(m=1).aggregate(reports, {})
    e = float(np.e)
    assert aggregation.clients == pytest.approx({"a": 1 / (1 + e), "b": e / (1 + e)}, rel=1e-14)


NARROW, WIDE = (1.0, 1.2, 1.4), (1.0, 1.2, 1.6)  # L_max / L_min below and above Q = 1.5


def reports(losses, sizes=(5, 80, 15)):
    return [
        Report(name, {f"tone {name}": n}, {f"tone {name}": loss})
        for name, n, loss in zip("abc", sizes, losses, strict=True)
    ]


def weights(losses, m):
    raised = np.exp(m * np.array(losses))
    return raised / raised.sum()


def test_m_rises_when_the_losses_are_far_apart_stays_otherwise_and_stops_at_its_bound():
    aggregator = FedAuto(loss_ratio=1.5, max_scale=3)
    state = aggregator.initial_state()
    rounds = [(NARROW, 1), (WIDE, 2), (NARROW, 2), (WIDE, 3), (WIDE, 3), (WIDE, 3), (NARROW, 3)]
    for losses, m in rounds:
        aggregation, state = aggregator.aggregate(reports(losses), state)
        assert state == {"m": m}
        np.testing.assert_allclose(list(aggregation.clients.values()), weights(losses, m), rtol=1e-14)
