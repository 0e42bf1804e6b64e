"""Margins of single pictures out of a sum of log-likelihoods over a grid of temperatures.

Of two classes, a picture whose label's logit is m above the other adds −log(1 + e^(−m / T)) at temperature T.
The sum over pictures is solved for all margins at once by nonlinear least squares, beside what is known of
such margins from pictures of the attacker's own.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import expit

from personalization.calibration.temperature import RESOLUTION, TEMPERATURES, log_likelihoods
from tests.attacks.records import matched


def draw_margins(rng: np.random.Generator, pictures: int) -> NDArray[np.float64]:
    """Log-odds of the true class, as of `tests.attacks.hospitals`."""
    return np.exp(rng.normal(0, 0.4, pictures)) * (2.5 + rng.normal(0, 1.8, pictures))


def as_before(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the control tells of these margins, `(temperatures,)`, in double precision."""
    return _at(margins, TEMPERATURES)


def as_now(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a client tells of them today, `(temperatures,)`."""
    logits = np.stack([np.zeros(len(margins)), margins], axis=1)
    return log_likelihoods(logits, np.ones(len(margins), dtype=np.int64))


def _at(margins: NDArray[np.float64], temperatures: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.logaddexp(0, -margins / temperatures[:, None]).sum(axis=1)


class Attacker:
    """Who has pictures of his own, and knows how many the hospital has.

    Args:
        pictures: of the hospital.
        rng: draws his own ones.
    """

    def __init__(self, pictures: int, rng: np.random.Generator) -> None:
        own = np.sort(draw_margins(rng, 500 * pictures).reshape(500, pictures), axis=1)
        self.expected, self.spread = own.mean(axis=0), own.std(axis=0)

    def solve(
        self,
        told: NDArray[np.float64],
        noise: float | NDArray[np.float64],
        temperatures: NDArray[np.float64] = TEMPERATURES,
    ) -> NDArray[np.float64]:
        """The margins that fit best, `(pictures,)`.

        Args:
            told: the sums, `(temperatures,)`.
            noise: nats by which a sum is off, of each or of all.
            temperatures: of the sums.
        """

        def residuals(margins: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate(
                [(_at(margins, temperatures) - told) / noise, (margins - self.expected) / self.spread]
            )

        def slopes(margins: NDArray[np.float64]) -> NDArray[np.float64]:
            of_sums = expit(-margins / temperatures[:, None]) / temperatures[:, None]
            return np.concatenate([of_sums / np.reshape(noise, (-1, 1)), np.diag(1 / self.spread)])

        exactly = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 500}
        return least_squares(residuals, self.expected, jac=slopes, method="trf", **exactly).x

    def guess(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """What he says who knows the published figures alone: the loss at T = 1, and at the T that fits."""
        sums = as_before(margins)
        temperatures = np.array([1.0, TEMPERATURES[sums.argmax()]])
        return self.solve(_at(margins, temperatures), 0.01, temperatures)


def found(claimed: NDArray[np.float64], margins: NDArray[np.float64]) -> int:
    """How many pictures' probability of the true class is named to 1/500, one to one."""
    return matched(np.abs(expit(claimed)[:, None] - expit(margins)) <= 1 / 500)


def try_sums(draws: int, pictures: int) -> tuple[list[int], list[int], dict[str, list[int]]]:
    """Margins that are read out of sums as the control tells them and as clients do."""
    rng = np.random.default_rng(1)
    attacker = Attacker(pictures, rng)
    before: list[int] = []
    now: list[int] = []
    guessed: list[int] = []
    for _ in range(draws):
        margins = draw_margins(rng, pictures)
        before.append(found(attacker.solve(as_before(margins), 1e-9), margins))
        now.append(found(attacker.solve(as_now(margins), RESOLUTION / 12**0.5), margins))
        guessed.append(found(attacker.guess(margins), margins))
    return before, now, {"published": guessed}
