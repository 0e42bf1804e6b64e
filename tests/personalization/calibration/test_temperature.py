"""The grid fit against a pooled continuous optimiser, and how few pictures lean on the global temperature."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from personalization.calibration.temperature import (
    RESOLUTION,
    TEMPERATURES,
    fit_temperature,
    log_likelihoods,
    shrink,
    subgroup_temperature,
)
from training.errors import DataError


def draw(seed, n, classes, true_temperature):
    """Logits of a model that is right about its probabilities after division by `true_temperature`."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(0, 2, (n, classes))
    noise = generator.gumbel(size=(n, classes))
    return honest * true_temperature, (honest + noise).argmax(axis=1)


def exact_temperature(logits, labels):
    rows = np.arange(len(labels))
    result = minimize_scalar(
        lambda log_t: -log_softmax(logits / np.exp(log_t), axis=1)[rows, labels].sum(),
        bounds=(log(0.05), log(20)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(np.exp(result.x))


def test_grid_runs_from_a_twentieth_to_twenty_and_holds_one_exactly():
    assert TEMPERATURES[0] == pytest.approx(0.05)
    assert TEMPERATURES[-1] == pytest.approx(20)
    assert TEMPERATURES[60] == 1.0
    assert np.diff(np.log(TEMPERATURES)) == pytest.approx(np.log(400) / 120)
    assert not TEMPERATURES.flags.writeable


def test_log_likelihoods_are_those_of_log_softmax():
    logits, labels = draw(0, 37, 5, 1.7)

    expected = [log_softmax(logits / t, axis=1)[np.arange(37), labels].sum() for t in TEMPERATURES]

    told = log_likelihoods(logits, labels)

    assert (np.abs(told - expected) <= RESOLUTION / 2 + 1e-12).all()
    assert (told == np.rint(told / RESOLUTION) * RESOLUTION).all()


def standard_error(logits, labels, temperature):
    """Of log T, from the curvature of the log-likelihood at its maximum."""
    rows, step = np.arange(len(labels)), 0.02
    at = [
        log_softmax(logits / (temperature * np.exp(by)), axis=1)[rows, labels].sum()
        for by in (-step, 0, step)
    ]
    return step / np.sqrt(2 * at[1] - at[0] - at[2])


@given(st.integers(0, 10_000), st.integers(30, 400), st.integers(2, 8), st.floats(0.5, 6))
def test_fit_agrees_with_a_continuous_optimiser(seed, n, classes, true_temperature):
    """To one percent, or to three quarters of the standard error where that is more."""
    logits, labels = draw(seed, n, classes, true_temperature)
    exact = exact_temperature(logits, labels)

    fitted = fit_temperature(log_likelihoods(logits, labels), n)

    tolerance = max(0.01, standard_error(logits, labels, exact) * 0.75)
    assert log(fitted) == pytest.approx(log(exact), abs=tolerance)


def test_clients_sums_fit_what_pooled_pictures_fit():
    logits, labels = draw(1, 90, 3, 0.6)
    clients = [slice(0, 7), slice(7, 60), slice(60, 90)]

    added = sum(log_likelihoods(logits[part], labels[part]) for part in clients)

    pooled = log_likelihoods(logits, labels)
    assert (np.abs(added - pooled) <= 2 * RESOLUTION + 1e-12).all()
    apart = abs(log(fit_temperature(added, 90)) - log(fit_temperature(pooled, 90)))
    assert apart < standard_error(logits, labels, exact_temperature(logits, labels)) / 2


@given(arrays(np.float64, (6, 3), elements=st.floats(-1e4, 1e4)))
def test_any_finite_logits_give_a_temperature_on_the_grid(logits):
    labels = np.array([0, 1, 2, 0, 1, 2])

    sums = log_likelihoods(logits, labels)

    assert np.isfinite(sums).all()
    assert fit_temperature(sums, 6) == pytest.approx(np.clip(fit_temperature(sums, 6), 0.05, 20), rel=1e-12)


def test_logits_that_say_nothing_and_no_logits_leave_the_temperature_at_one():
    for n in (8, 0):
        sums = log_likelihoods(np.zeros((n, 3)), np.zeros(n, dtype=int))
        assert (fit_temperature(sums, n), bool(sums.any())) == (1.0, n > 0)


@pytest.mark.parametrize(("times", "highest"), [(10, 0.3), (100, 0.06)])
def test_a_model_that_is_always_right_meets_the_lower_end_of_the_grid(times, highest):
    logits = np.array([[0.1, 0.0], [0.0, 0.2], [0.3, 0.0]] * times)
    labels = np.array([0, 1, 0] * times)

    assert 0.05 <= fit_temperature(log_likelihoods(logits, labels), 3 * times) < highest


def test_shrinking_is_the_weighted_geometric_mean():
    assert shrink(4.0, 30, 1.0, 10) == pytest.approx(4.0 ** (30 / 40))
    assert shrink(4.0, 30, 2.0, 0) == pytest.approx(4.0)
    assert shrink(4.0, 0, 2.0, 10) == pytest.approx(2.0)
    assert shrink(4.0, 0, 2.0, 0) == 2.0


@given(
    st.floats(0.05, 20), st.floats(0.05, 20), st.integers(0, 5000), st.floats(0, 500, allow_subnormal=False)
)
def test_shrinking_stays_between_the_two_temperatures(own, pooled, n, strength):
    low, high = sorted((own, pooled))

    assert low * (1 - 1e-12) <= shrink(own, n, pooled, strength) <= high * (1 + 1e-12)


def test_a_subgroup_with_too_few_pictures_takes_the_global_temperature():
    logits, labels = draw(2, 10, 3, 3.0)
    sums = log_likelihoods(logits, labels)

    alone = subgroup_temperature(sums, 9, 1.4, 10)
    shrunk = subgroup_temperature(sums, 10, 1.4, 10)

    assert (alone.value, alone.fitted, alone.n) == (1.4, None, 9)
    assert shrunk.fitted == fit_temperature(sums, 10)
    assert log(shrunk.value) == pytest.approx((10 * log(shrunk.fitted) + 20 * log(1.4)) / 30)


def test_logits_of_a_model_that_diverged_and_sums_of_another_grid_are_refused():
    with pytest.raises(DataError, match="not finite"):
        log_likelihoods(np.array([[np.inf, 0.0]]), np.array([0]))
    with pytest.raises(DataError, match=r"\(3,\) cannot be fitted"):
        fit_temperature(np.zeros(3), 5)
