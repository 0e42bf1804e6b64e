"""Coverage by simulation: 1,000 draws of a calibration and a test split, each subgroup by itself.

Over draws, the number covered of m test pictures is BetaBinomial(m, r, n + 1 - r) with r = ceil((n + 1) 0.9).
A threshold is the lower edge of a bin: with exact scores it would lie in that bin. So what is covered from
the bin on is stochastically at least that law, and what is covered from the next bin on at most.

The band: the Dvoretzky-Kiefer-Wolfowitz bound of the distribution function over 1,000 draws, at 99.9 % for
each side, and 3.29 standard errors (99.9 %) of the mean.
"""

from math import ceil, log, sqrt

import numpy as np
import pytest
from scipy.stats import betabinom

from personalization.calibration.conformal import fit_threshold
from registry.bundle.score_bins import SCORE_BINS, score_bin

DRAWS = 1000
TESTED = 200
BAND = sqrt(log(1000) / (2 * DRAWS))  # 0.059
ERRORS = 3.29

# Size of the calibration split, and the Beta law of the probability of the true class: the fewer, the harder.
SUBGROUPS = {"dark": (25, (1.2, 1.0)), "medium": (100, (2.0, 1.0)), "light": (400, (5.0, 1.0))}


def thresholds(of_truth):
    """The threshold of each draw, `(draws,)`, from true-class probabilities `(draws, pictures)`."""
    found = np.empty(len(of_truth), dtype=np.int64)
    for place, row in enumerate(score_bin(of_truth)):
        histogram = np.bincount(row, minlength=SCORE_BINS)
        found[place] = fit_threshold(histogram, 0.9).threshold_bin
    return found


def drawn(name, seed):
    """Calibration `(draws, n)` and test `(draws, m)` probabilities of one subgroup."""
    n, law = SUBGROUPS[name]
    rng = np.random.default_rng([seed, n])
    return rng.beta(*law, size=(DRAWS, n)), rng.beta(*law, size=(DRAWS, TESTED))


@pytest.mark.parametrize("name", SUBGROUPS)
def test_coverage_over_draws_is_beta_binomial(name):
    calibration, tested = drawn(name, seed=0)
    n = calibration.shape[1]
    rank = ceil((n + 1) * 0.9 - 1e-9)
    law = betabinom(TESTED, rank, n + 1 - rank)
    bars = thresholds(calibration)[:, np.newaxis]
    covered = (score_bin(tested) >= bars).sum(axis=1)
    covered_above = (score_bin(tested) > bars).sum(axis=1)

    places = np.arange(TESTED + 1)
    share = (covered[:, np.newaxis] <= places).mean(axis=0)
    share_above = (covered_above[:, np.newaxis] <= places).mean(axis=0)
    assert (share <= law.cdf(places) + BAND).all()
    assert (share_above >= law.cdf(places) - BAND).all()

    error = ERRORS * law.std() / sqrt(DRAWS)
    assert covered.mean() >= law.mean() - error
    assert covered_above.mean() <= law.mean() + error
    assert law.mean() / TESTED == pytest.approx(rank / (n + 1))
    assert rank / (n + 1) >= 0.9


def test_a_rank_off_by_one_would_leave_the_band():
    """The band is narrow enough to tell: the law of the next lower rank fails it in every subgroup."""
    for name in SUBGROUPS:
        calibration, tested = drawn(name, seed=0)
        n = calibration.shape[1]
        rank = ceil((n + 1) * 0.9 - 1e-9)
        lower = np.sort(calibration, axis=1)[:, n - rank + 1]  # the threshold of rank - 1
        covered = (tested >= lower[:, np.newaxis]).sum(axis=1)
        law = betabinom(TESTED, rank, n + 1 - rank)
        assert covered.mean() < law.mean() - ERRORS * law.std() / sqrt(DRAWS)


def test_one_threshold_for_all_would_not_cover_the_hardest_subgroup():
    pooled = np.concatenate([drawn(name, seed=1)[0] for name in SUBGROUPS], axis=1)
    bars = thresholds(pooled)[:, np.newaxis]
    covered = {name: (score_bin(drawn(name, seed=1)[1]) >= bars).mean() for name in SUBGROUPS}
    assert covered["dark"] < 0.8
    assert covered["light"] > 0.95
