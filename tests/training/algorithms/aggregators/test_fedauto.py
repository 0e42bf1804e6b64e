import numpy as np
import pytest
from pydantic import ValidationError

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.fedauto import FedAuto

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
        mixture, state = aggregator.weigh(reports(losses), state)
        assert state == {"m": m}
        np.testing.assert_allclose(list(mixture.clients.values()), weights(losses, m), rtol=1e-14)


def test_the_raised_m_weighs_the_same_round():
    mixture, _ = FedAuto().weigh(reports(WIDE), {"m": 1.0})
    np.testing.assert_allclose(list(mixture.clients.values()), weights(WIDE, 2), rtol=1e-14)


def test_losses_of_a_thousand_do_not_overflow():
    mixture, _ = FedAuto().weigh(reports((100.0, 1000.0, 500.0)), {"m": 2.0})
    assert mixture.clients == pytest.approx({"a": 0, "b": 1, "c": 0}, abs=1e-15)


@pytest.mark.parametrize("wrong", [{"loss_ratio": 1.0}, {"max_scale": 0}])
def test_settings_without_a_meaning_are_refused(wrong):
    with pytest.raises(ValidationError, match="greater than"):
        FedAuto(**wrong)
