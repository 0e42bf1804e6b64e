"""How often a working point finds fewer malignant lesions than was promised, on new patients.

Drawn models have scores of malignant lesions and of others. Calibration lesions are drawn, four others to
each malignant one, counted as hospitals count them, and a working point is fitted to a sensitivity of 0.95:
as `calibrate` does, by a lower limit, and, to compare, by the observed sensitivity. The true sensitivity and
specificity there are those of 400,000 lesions. Criteria: where the target is told as reached, it is missed in
at most 5 % of the fits, and what is told as the lower limit is missed in at most 5 % of all, in every row.

    python benchmarks/missed_sensitivity.py --draws 1000
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from tables import print_conditions, print_table

from personalization.calibration.at_thresholds import CountsAt
from personalization.calibration.triage import count_malignancies
from personalization.calibration.working_point import (
    WorkingPoint,
    fit_working_point,
    propose_working_points,
)
from registry.bundle.counts.score_bins import SCORE_BINS, score_bin, smallest_cell

CELL = smallest_cell(10)  # as of a job that does not say otherwise
LONG_RUN = 400_000  # lesions of each side
MALIGNANT = (20, 59, 100, 300)
OTHERS = 4  # to each malignant lesion
TARGET = 0.95
KINDS = np.array([-1, 0])
Real = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Real]
Part = tuple[Real, NDArray[np.int64]]  # probabilities and labels of the lesions of a hospital


def logistic(mean: float, spread: float) -> Draw:
    """Scores whose log-odds are normal."""
    return lambda random, n: 1 / (1 + np.exp(-random.normal(mean, spread, n)))


def with_hidden(mean: float, spread: float) -> Draw:
    """As `logistic`, but every twentieth lesion looks like a harmless one."""
    seen, hidden = logistic(mean, spread), logistic(-4, 0.5)
    return lambda random, n: np.where(random.random(n) < 0.05, hidden(random, n), seen(random, n))


def tenths(of: Draw) -> Draw:
    """Scores that have ten values only."""
    return lambda random, n: np.floor(10 * of(random, n)) / 10 + 0.05


# Scores of lesions that are not malignant, and of malignant ones.
MODELS: Mapping[str, tuple[Draw, Draw]] = {
    "tells them apart well": (logistic(-2, 1.2), logistic(2, 1.2)),
    "tells them apart poorly": (logistic(-0.7, 1), logistic(0.7, 1)),
    "one in twenty looks harmless": (logistic(-2, 1), with_hidden(2, 1)),
    "ten scores only": (tenths(logistic(-2, 1.2)), tenths(logistic(2, 1.2))),
}


def observed(malignancy: NDArray[np.int64]) -> int:
    """The highest threshold whose observed sensitivity is the target or more."""
    found = malignancy[1][::-1].cumsum()[::-1]
    return int(np.flatnonzero(found >= TARGET * malignancy[1].sum())[-1])


def calibration(name: str, n: int, hospitals: int, random: np.random.Generator) -> list[Part]:
    """So many malignant lesions and four times as many others, at hospitals."""
    others, malignant = MODELS[name]
    scores = np.concatenate([others(random, OTHERS * n), malignant(random, n)])
    labels = np.repeat([0, 1], [OTHERS * n, n])
    probabilities = np.stack([1 - scores, scores], axis=1)
    places = random.integers(0, hospitals, len(labels))
    return [(probabilities[places == place], labels[places == place]) for place in range(hospitals)]


def malignancies(parts: list[Part]) -> NDArray[np.int64]:
    """The histogram `(2, bins)` that hospitals tell first."""
    told = (count_malignancies(of, labels, KINDS, np.arange(len(labels)), CELL) for of, labels in parts)
    return sum(told, np.zeros((2, SCORE_BINS), dtype=np.int64))


def works_from(told: NDArray[np.int64]) -> WorkingPoint | None:
    """The working point, from what hospitals tell in the clear."""
    malignant = told[1]
    at = propose_working_points(malignant, TARGET)
    return fit_working_point(CountsAt.of(malignant[np.newaxis], at), TARGET)


def row(name: str, n: int, hospitals: int, draws: int) -> list[object]:
    """How often either rule misses, and what it costs."""
    random = np.random.default_rng([n, hospitals, list(MODELS).index(name)])
    counted = np.stack(
        [np.bincount(score_bin(draw(random, LONG_RUN)), minlength=SCORE_BINS) for draw in MODELS[name]]
    )
    above, sensitivity = counted[:, ::-1].cumsum(axis=1)[:, ::-1] / LONG_RUN
    told = [malignancies(calibration(name, n, hospitals, random)) for _ in range(draws)]
    points = [point for each in told if (point := works_from(each)) is not None]
    at = np.array([point.threshold_bin for point in points])
    naive = np.array([observed(each) for each in told])
    return [
        name,
        n,
        hospitals,
        missed(sensitivity[at] < TARGET, np.array([point.reached for point in points])),
        f"{(sensitivity[at] < lows(points)).mean():.1%}",
        f"{lows(points).mean():.3f}",
        f"{sensitivity[at].mean():.3f}",
        f"{1 - above[at].mean():.3f}",
        f"{(sensitivity[naive] < TARGET).mean():.1%}",
        f"{1 - above[naive].mean():.3f}",
    ]


def missed(below: NDArray[np.bool_], reached: NDArray[np.bool_]) -> str:
    """In how many of the fits that told the target as reached it is missed."""
    return f"{below[reached].mean():.1%}" if reached.any() else "not told"


def lows(points: list[WorkingPoint]) -> Real:
    """What is told as the lower limit."""
    return np.array([point.sensitivity_low for point in points])


def main(draws: Annotated[int, typer.Option(help="Calibrations for each row.")] = 1000) -> None:
    """Draw, fit, and print how often a promise is missed."""
    print_conditions("Working point: how often the sensitivity is missed", {"draws": draws, "cell": CELL})
    header = ["model", "malignant lesions", "hospitals", "target missed where told", "lower limit missed"]
    header += ["lower limit", "true sensitivity", "specificity", "observed: target missed"]
    header += ["observed: specificity"]
    rows = [row(name, n, hospitals, draws) for name in MODELS for n in MALIGNANT for hospitals in (1, 3)]
    print_table(header, rows)


if __name__ == "__main__":
    start(main, "--draws 5")
