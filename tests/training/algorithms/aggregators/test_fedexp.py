import numpy as np
import pytest
from pydantic import ValidationError

from training.algorithms.aggregators.base import Report
from training.algorithms.aggregators.fedexp import FedExp

LOSSES = {"a": 0.3, "b": 1.7, "c": 0.9}
REPORTS = [
    Report(name, {f"tone {name}": n}, {f"tone {name}": LOSSES[name]})
    for name, n in zip("abc", (5, 80, 15), strict=True)
]


@pytest.mark.parametrize("m", [1, 2, 3.5])
def test_weights_are_the_exponentials_of_the_scaled_losses(m):
    raised = np.exp(m * np.array([0.3, 1.7, 0.9]))
    mixture, _ = FedExp(m=m).weigh(REPORTS, {})
    np.testing.assert_allclose(list(mixture.clients.values()), raised / raised.sum(), rtol=1e-14)


def test_a_tiny_m_is_fedequal():
    mixture, _ = FedExp(m=1e-9).weigh(REPORTS, {})
    assert mixture.clients == pytest.approx(dict.fromkeys("abc", 1 / 3), rel=1e-8)


def test_a_large_m_leaves_the_worst_served_alone():
    mixture, _ = FedExp(m=1000).weigh(REPORTS, {})
    assert mixture.clients == pytest.approx({"a": 0, "b": 1, "c": 0}, abs=1e-12)


def test_losses_of_a_thousand_do_not_overflow():
    reports = [Report("a", {"light": 3}, {"light": 1000.0}), Report("b", {"dark": 5}, {"dark": 1001.0})]
    mixture, _ = FedExp(m=1).weigh(reports, {})
    e = float(np.e)
    assert mixture.clients == pytest.approx({"a": 1 / (1 + e), "b": e / (1 + e)}, rel=1e-14)


@pytest.mark.parametrize("m", [0, -1])
def test_m_is_positive(m):
    with pytest.raises(ValidationError, match="greater than 0"):
        FedExp(m=m)
