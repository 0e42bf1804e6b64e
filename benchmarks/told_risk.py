"""How often a threshold of referral lets more answers be wrong than it was allowed to, on new pictures.

Drawn models have a confidence and a chance to be right that depends on it. Of calibration pictures up to five
thresholds are proposed by confidence alone, each answering another fifth of the pictures, and tested for a
target risk of 0.1 at δ = .05 in four ways, by p(x, n) = P(Bin(n, 0.1) ≤ x) of x wrong among n answers:

- fixed sequence: the strictest first, each at δ, up to the first that fails (Maurer et al. 1995);
- fallback: the strictest first, or the widest first, each at δ/m and what the one before it had, if it passed
  (Wiens 2003);
- Holm: the smallest p at δ/m, the next at δ/(m − 1), up to the first that fails (Holm 1979).

The lowest threshold that passes is taken. Thresholds that could not pass with every answer right are left
out beforehand, m are those that are left. To compare, the lowest whose observed risk over ten answers or more
is at most the target. The true risk among what is answered is that of 400,000 pictures.

Criterion, fixed before the first run: of the four, those are admitted whose threshold is over the target in
at most 5 % of the fits of every model and number of pictures, or in more with the exact 95 % interval
reaching down to 5 %. The one of these is taken that answers the largest share of pictures, in the mean over
the models that are wrong in 2, 5 and 8 of 100 at 100, 300 and 1,000 pictures.

    python benchmarks/told_risk.py --draws 1000
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from scipy.stats import binom
from tables import print_conditions, print_table

from personalization.calibration.abstention import AbstentionConfig, fit_abstention, propose_thresholds
from personalization.calibration.at_thresholds import CountsAt
from registry.bundle.counts.score_bins import SCORE_BINS, score_bin

LONG_RUN = 400_000  # pictures
PICTURES = (20, 50, 100, 300, 1000)
TARGET = AbstentionConfig()
RISK, DELTA = TARGET.target_risk, TARGET.failures
Real = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
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
    "wrong in 8 of 100, however sure": (certain(1, 1), lambda confidence: 0 * confidence + 0.08),
    "wrong in 5 of 100, however sure": (certain(1, 1), lambda confidence: 0 * confidence + 0.05),
    "wrong in 2 of 100, however sure": (certain(1, 1), lambda confidence: 0 * confidence + 0.02),
}


def observed_risk(confidence: Ints, wrong: Bools) -> int:
    """The threshold of largest coverage whose observed risk is at most the target, of ten answers or more."""
    reported = np.bincount(confidence, minlength=SCORE_BINS)[::-1].cumsum()[::-1]
    errors = np.bincount(confidence[wrong], minlength=SCORE_BINS)[::-1].cumsum()[::-1]
    allowed = (reported >= 10) & (errors <= RISK * reported)
    if not allowed.any():
        return SCORE_BINS
    return int(np.flatnonzero(allowed & (reported == reported[allowed].max()))[-1])


def fixed_sequence(p: Real, delta: float) -> int:
    """The place of the widest threshold that passes, of p-values of the strictest first."""
    failed = np.flatnonzero(p > delta)
    return (int(failed[0]) if len(failed) else len(p)) - 1


def fallback_widest_first(p: Real, delta: float) -> int:
    """The same, each at an equal share of δ and what the one before it had, the widest first."""
    share, passed = 0.0, []
    for place in reversed(range(len(p))):
        share += delta / len(p)
        passed += [place] if p[place] <= share else []
        share = share if p[place] <= share else 0.0
    return max(passed, default=-1)


def holm(p: Real, delta: float) -> int:
    """The same, the smallest p-value first."""
    passed = []
    for rank, place in enumerate(np.argsort(p, kind="stable")):
        if p[place] > delta / (len(p) - rank):
            break
        passed.append(int(place))
    return max(passed, default=-1)


def of_calibrate(confidence: Ints, wrong: Bools) -> int:
    """The rule of `calibrate`: fallback, the strictest first."""
    counts = np.stack([np.bincount(of, minlength=SCORE_BINS) for of in (confidence, confidence[wrong])])
    at = propose_thresholds(counts[0], TARGET)
    return fit_abstention(CountsAt.of(counts, at), TARGET).threshold_bin


def tested(procedure: Callable[[Real, float], int], split: bool) -> Callable[[Ints, Bools], int]:
    """A rule: propose by confidence alone, and test."""

    def rule(confidence: Ints, wrong: Bools) -> int:
        n = len(confidence)
        answered = np.bincount(confidence, minlength=SCORE_BINS)[::-1].cumsum()[::-1]
        errors = np.bincount(confidence[wrong], minlength=SCORE_BINS)[::-1].cumsum()[::-1]
        occupied = np.unique(confidence)
        fifths = [occupied[answered[occupied] <= np.ceil(n * step / 5)] for step in range(1, 6)]
        bins = sorted({int(each[0]) for each in fifths if len(each)}, reverse=True)
        for m in range(len(bins), 0, -1):
            able = [t for t in bins if (1 - RISK) ** answered[t] <= DELTA / (m if split else 1)]
            if not split or len(able) >= m:
                able = able[-m:]
                break
        p = np.array([binom.cdf(errors[t], answered[t], RISK) for t in able])
        place = procedure(p, DELTA) if able else -1
        return able[place] if place >= 0 else SCORE_BINS

    return rule


RULES: Mapping[str, Callable[[Ints, Bools], int]] = {
    "observed risk": observed_risk,
    "fixed sequence": tested(fixed_sequence, split=False),
    "fallback": of_calibrate,
    "fallback, widest first": tested(fallback_widest_first, split=True),
    "Holm": tested(holm, split=True),
}


def calibration(
    draw: Draw, risk: Callable[[Real], Real], n: int, random: np.random.Generator
) -> tuple[Ints, Bools]:
    """The confidences of n calibration pictures of a model, as score bins, and which answers are wrong."""
    confidence = draw(random, n)
    return score_bin(confidence), random.random(n) < risk(confidence)


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
        thresholds = np.array([rule(*each) for each in drawn])
        true = errors[thresholds] / np.maximum(reported[thresholds], 1)
        cells += [
            f"{(true > RISK).mean():.1%}",
            f"{reported[thresholds].mean() / LONG_RUN:.1%}",
        ]
    return cells


def main(draws: Annotated[int, typer.Option(help="Calibrations for each row.")] = 1000) -> None:
    """Draw, fit, and print how often the target is missed."""
    print_conditions("Referral: how often the target risk is exceeded", {"draws": draws})
    header = ["model", "calibration pictures"]
    header += [f"{rule}: {what}" for rule in RULES for what in ("over the target", "answered")]
    rows = [[name, n, *figures(name, n, draws)] for name in MODELS for n in PICTURES]
    print_table(header, rows)


if __name__ == "__main__":
    start(main, "--draws 5")
