"""ε against accountants that work otherwise: the exact one of the Gaussian mechanism, and numerical ones."""

from math import erf, exp, sqrt

import pytest
from scipy.optimize import brentq

from training.privacy.dp.accountant import EPSILON, RELEASES, epsilon
from training.privacy.dp.report import privacy_facts, privacy_text
from training.privacy.settings import PrivacyConfig


def exact_epsilon(noise_multiplier, releases, delta):
    """Balle and Wang 2018, Theorem 8: T Gaussian mechanisms are one of noise z / √T."""

    def normal(x):
        return (1 + erf(x / sqrt(2))) / 2

    def gap(eps):
        mu = sqrt(releases) / noise_multiplier
        return normal(mu / 2 - eps / mu) - exp(eps) * normal(-mu / 2 - eps / mu) - delta

    return brentq(gap, 0, 300)


@pytest.mark.parametrize(("noise", "releases"), [(1.0, 1), (1.0, 20), (5.0, 20), (0.5, 3), (20.0, 100)])
@pytest.mark.parametrize("delta", [1e-5, 1e-3])
def test_epsilon_is_a_near_bound_of_the_exact_one(noise, releases, delta):
    exact = exact_epsilon(noise, releases, delta)
    found = epsilon([(noise, 1.0, releases)], delta)
    assert exact <= found <= 1.25 * exact + 0.05


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.05, 200), (0.7, 0.2, 30)])
def test_sampled_steps_against_the_numerical_accountant(noise, rate, steps):
    opacus = pytest.importorskip("opacus.accountants")
    numerical = opacus.PRVAccountant()
    numerical.history = [(noise, rate, steps)]
    prv = numerical.get_epsilon(1e-5)
    found = epsilon([(noise, rate, steps)], 1e-5)
    assert prv - 0.02 <= found <= 1.25 * prv + 0.1


def test_more_steps_less_noise_and_smaller_delta_cost_more():
    base = epsilon([(1.0, 0.1, 10)], 1e-5)
    assert epsilon([(1.0, 0.1, 20)], 1e-5) > base
    assert epsilon([(0.8, 0.1, 10)], 1e-5) > base
    assert epsilon([(1.0, 0.1, 10)], 1e-7) > base
    assert epsilon([(1.0, 0.1, 10), (2.0, 0.1, 1)], 1e-5) > base
    # Steps of one kind in two entries are the steps together.
    assert epsilon([(1.0, 0.1, 4), (1.0, 0.1, 6)], 1e-5) == pytest.approx(base)


def line(**scalars):
    return {"models": {"global": {"scalars": scalars}}}


def test_what_is_reported_of_a_run():
    config = PrivacyConfig.model_validate(
        {"client_level": {"clip": 1.0, "noise_multiplier": 2.0, "delta": 1e-4}}
    )
    lines = [line(a={RELEASES: 1.0}, b={RELEASES: 1.0}), line(a={RELEASES: 2.0}), line(a={RELEASES: 4.0})]
    told = privacy_facts(config, lines)["client_level"]
    # a was asked again after a kill: its own count says four.
    assert told["releases"] == {"a": 4, "b": 1}
    assert told["epsilon"] == pytest.approx(epsilon([(2.0, 1.0, 4)], 1e-4))
    (sentence, beside) = privacy_text({"client_level": told, "not_covered": "x"})
    assert f"({told['epsilon']:.3g}, 0.0001)-differential privacy" in sentence
    assert beside == "Not covered by this: x."
    assert privacy_facts(PrivacyConfig(), lines) == {}
    assert privacy_text({}) == []


def test_the_account_of_pictures_is_the_worst_clients():
    lines = [line(a={EPSILON: 1.5, "private_delta": 1e-5}, b={EPSILON: 2.5, "private_delta": 1e-5})]
    told = privacy_facts(PrivacyConfig(), lines)["picture_level"]
    assert told["epsilon"] == 2.5
    assert told["epsilon_by_client"] == {"a": 1.5, "b": 2.5}
    assert told["delta"] == 1e-5


def test_noise_on_counts_is_told_with_what_it_covers_and_what_not():
    config = PrivacyConfig.model_validate({"counts": {"epsilon": 2, "delta": 1e-6, "masks": True}})
    noise = {"test": {"parts_told": 2, "deviation": 5.25, "epsilon_of_own_noise": 4.1}}
    facts = privacy_facts(config, [], noise)
    assert facts["counts"]["by_split"] == noise
    assert "sums of 3 hospitals or more" in facts["counts"]["against"]
    (sentence,) = privacy_text(facts)
    assert "of standard deviation 5.25 in test: (2, 1e-06)-differential privacy" in sentence
    assert "how many pictures of each class and subgroup" in sentence
    level = {"client_level": {"clip": 1.0, "noise_multiplier": 2.0}}
    both = PrivacyConfig.model_validate({"counts": {"epsilon": 2}, **level})
    assert "counts of predictions" in privacy_facts(PrivacyConfig.model_validate(level), [])["not_covered"]
    assert "counts of predictions" not in privacy_facts(both, [], noise)["not_covered"]
