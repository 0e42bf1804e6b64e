"""How often a threshold of referral lets more answers be wrong than it was allowed to, on new pictures.

Drawn models have a confidence and a chance to be right that depends on it. Calibration pictures are drawn,
counted as hospitals count them, and a threshold is fitted to a target risk of 0.1: as `calibrate` does, by an
upper limit, and as its first version did, by the observed risk of ten answers or more. The true risk among
what is reported is then that of 400,000 pictures. Criterion: over the target in at most 10 % of the fits, in
every row.

    python benchmarks/told_risk.py --draws 1000
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from tables import print_conditions, print_table

from personalization.calibration.abstention import AbstentionConfig, fit_abstention
from personalization.calibration.calibration_counts import CalibrationCounts
from registry.bundle.counts.merged_bins import smallest_cell
from registry.bundle.counts.score_bins import SCORE_BINS, score_bin

CELL = smallest_cell(10)  # as of a job that does not say otherwise
LONG_RUN = 400_000  # pictures
PICTURES = (20, 50, 100, 300, 1000)
TARGET = AbstentionConfig()
Real = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Real]


def certain(a: float, b: float) -> Draw:
    """Confidence from 0.5 to 1, spread as Beta(a, b)."""
    return lambda random, n: 0.5 + random.beta(a, b, n) / 2


MODELS: Mapping[str, tuple[Draw, Callable[[Real], Real]]] = {
    "honest, mostly sure": (certain(4, 1), lambda confidence: 1 - confidence),
    "honest, mostly unsure": (certain(1, 2), lambda confidence: 1 - confidence),
    "twice as often wrong as it says": (certain(4, 1), lambda confidence: 2 * (1 - confidence)),
    "right from 0.75 on, guesses below": (
        certain(1, 1),
        lambda confidence: np.where(confidence > 0.75, 0.05, 0.4),
    ),
    "wrong in 12 of 100, however sure": (certain(1, 1), lambda confidence: 0 * confidence + 0.12),
    "wrong in 5 of 100, however sure": (certain(1, 1), lambda confidence: 0 * confidence + 0.05),
}


def observed_risk(confidence: NDArray[np.int64]) -> int:
    """The threshold of largest coverage whose observed risk is at most the target, of ten answers or more."""
    wrong, right = confidence
    reported = (wrong + right)[::-1].cumsum()[::-1]
    errors = wrong[::-1].cumsum()[::-1]
    allowed = (reported >= 10) & (errors <= TARGET.target_risk * reported)
    if not allowed.any():
        return SCORE_BINS
    return int(np.flatnonzero(allowed & (reported == reported[allowed].max()))[-1])


RULES: Mapping[str, Callable[[NDArray[np.int64]], int]] = {
    "observed risk": observed_risk,
    "upper limit": lambda confidence: fit_abstention(confidence, TARGET).threshold_bin,
}


def calibration(
    draw: Draw, risk: Callable[[Real], Real], n: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """The histogram `(2, bins)` of n calibration pictures of a model, as a hospital tells it."""
    confidence = draw(random, n)
    right = random.random(n) >= risk(confidence)
    probabilities = np.stack([confidence, 1 - confidence], axis=1).astype(np.float32)
    return CalibrationCounts.count(probabilities, np.where(right, 0, 1), np.arange(n), CELL).confidence


def figures(name: str, n: int, draws: int) -> list[object]:
    """How often each rule misses the target, and what share of all pictures it reports."""
    draw, risk = MODELS[name]
    random = np.random.default_rng([n, list(MODELS).index(name)])
    confidence = draw(random, LONG_RUN)
    at = np.bincount(score_bin(confidence), minlength=SCORE_BINS + 1)
    wrong = np.bincount(score_bin(confidence), risk(confidence), minlength=SCORE_BINS + 1)
    reported, errors = (np.cumsum(each[::-1])[::-1] for each in (at, wrong))
    drawn = [calibration(draw, risk, n, random) for _ in range(draws)]
    cells: list[object] = []
    for rule in RULES.values():
        thresholds = np.array([rule(counts) for counts in drawn])
        true = errors[thresholds] / np.maximum(reported[thresholds], 1)
        cells += [
            f"{(true > TARGET.target_risk).mean():.1%}",
            f"{reported[thresholds].mean() / LONG_RUN:.1%}",
        ]
    return cells


def main(draws: Annotated[int, typer.Option(help="Calibrations for each row.")] = 1000) -> None:
    """Draw, fit, and print how often the target is missed."""
    print_conditions("Referral: how often the target risk is exceeded", {"draws": draws, "cell": CELL})
    header = ["model", "calibration pictures"]
    header += [f"{rule}: {what}" for rule in RULES for what in ("over the target", "answered")]
    rows = [[name, n, *figures(name, n, draws)] for name in MODELS for n in PICTURES]
    print_table(header, rows)


if __name__ == "__main__":
    start(main, "--draws 5")
