"""Triage: which lesions are ruled out and which are urgent, by thresholds on the probability of malignancy p.

**Ruled out** is a lesion with score_bin(p) < t. Of the n_k calibration lesions of kind k of malignancy
x_k(t) are, and t is the largest threshold with

    high(x_k(t)) ≤ β for every kind k,  high(x) = B(level; x + 1, n_k − x),  B(q; a, b) the q-quantile of Beta

(Clopper & Pearson 1934). One threshold has a proof for each kind: a target over all malignant lesions could
be met by those that are common. Each kind's limit holds at the level by itself
(`personalization.calibration.at_thresholds`), and takes ⌈log(1 − level) / log(1 − β)⌉ lesions of the kind, 29
for β = .1, none of them missed. Where a kind has fewer, nothing is ruled out.

**Urgent** is a lesion with score_bin(p) ≥ u, u the lowest threshold that at most α of lesions that are not
malignant reach, by the same limit with the order turned. Urgent goes before ruled out.

Counts are rows: lesions that are not malignant, then each kind. Hospitals count neighbours in runs, malignant
ones at or below the lowest score of the run and others at or above its highest. So merged histograms tell of
more misses below a threshold, and of more false alarms from it on, than there are: the limits hold, and
merging costs answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from personalization.calibration.at_thresholds import (
    STEPS,
    CountsAt,
    fit_working_point,
    largest_shown,
    lower_limit,
    most_allowed,
    propose,
    propose_working_points,
    upper_limit,
)
from registry.bundle.manifest import WorkingPoint
from registry.bundle.score_bins import SCORE_BINS, highest, lowest, malignancy_probability, merge, score_bin
from training.config import FrozenConfig

EACH_END: Final = 0.975
"""The level of each of the two limits of a predictive value; both hold together at `LEVEL`."""


class TriageConfig(FrozenConfig):
    """What triage may get wrong.

    Attributes:
        missed: the share of each kind of malignancy that may be ruled out.
        false_alarms: the share of other lesions that may be urgent.
    """

    missed: float = Field(0.1, gt=0, lt=1)
    false_alarms: float = Field(0.1, gt=0, lt=1)


@dataclass(frozen=True)
class Share:
    """A share of calibration lesions with its upper limit.

    Attributes:
        n: lesions.
        x: those that are so.
        high: the upper limit of the share at `LEVEL`.
    """

    n: int
    x: int
    high: float

    @classmethod
    def of(cls, x: int, n: int) -> "Share":
        """The share x / n."""
        return cls(n, x, float(upper_limit(np.array(x), np.array(n))))


@dataclass(frozen=True)
class RuledOut:
    """What is ruled out.

    Attributes:
        below: score bins below this one are; 0 where no threshold has a proof.
        missed: malignant lesions of each kind below it; of all that there are where nothing is ruled out.
        others_low: the lower limit at `EACH_END` of the share of other lesions below it.
        missed_high: of the kind with the largest, the upper limit at `EACH_END` of its share below it.
    """

    below: int
    missed: tuple[Share, ...]
    others_low: float
    missed_high: float

    @classmethod
    def at(cls, below: int, counts: CountsAt) -> "RuledOut":
        """What is below a threshold that was counted at, or 0, of `1 + kinds` rows."""
        n = counts.n
        x = counts.at([below]).below[:, 0] if below else np.zeros_like(n)
        return cls(
            below,
            tuple(map(Share.of, x[1:].tolist(), n[1:].tolist())),
            lower_limit(int(x[0]), int(n[0]), EACH_END),
            float(upper_limit(x[1:], n[1:], EACH_END).max()),
        )


@dataclass(frozen=True)
class Urgent:
    """What is urgent.

    Attributes:
        from_bin: score bins from this one on are; `SCORE_BINS` where no threshold has a proof.
        false_alarms: lesions that are not malignant from there on.
        found_low: the lower limit at `EACH_END` of the share of malignant lesions from there on.
        false_alarms_high: the upper limit at `EACH_END` of the share of others.
    """

    from_bin: int
    false_alarms: Share
    found_low: float
    false_alarms_high: float


def propose_ruled_out(histogram: NDArray[np.int64], beta: float) -> tuple[int, ...]:
    """Thresholds to count at, score bins, rising; none where a kind has too few lesions for any proof.

    Args:
        histogram: lesions by malignancy, `(1 + kinds, bins)`.
        beta: the share of each kind that may be missed.
    """
    kinds = histogram[1:]
    return propose(kinds, [most_allowed(int(n), beta) for n in kinds.sum(axis=1)])


def fit_ruled_out(counts: CountsAt, beta: float) -> RuledOut:
    """The largest threshold below which each kind is shown to be missed in at most `beta`.

    Args:
        counts: at the thresholds that `propose_ruled_out` gave, `1 + kinds` rows.
        beta: the share of each kind that may be missed.
    """
    kinds = counts.rows(slice(1, None))
    allowed = [most_allowed(int(n), beta) for n in kinds.n]
    below = largest_shown(kinds, allowed) if min(allowed) >= 0 else None
    return RuledOut.at(below or 0, counts)


def propose_urgent(histogram: NDArray[np.int64], alpha: float) -> tuple[int, ...]:
    """Thresholds to count at, score bins, rising; none where there are too few other lesions for any proof.

    Args:
        histogram: lesions by malignancy, `(1 + kinds, bins)`.
        alpha: the share of lesions that are not malignant that may reach a threshold.
    """
    others = histogram[:1]
    turned = propose(others[:, ::-1], [most_allowed(int(others.sum()), alpha)])
    return tuple(sorted(SCORE_BINS - each for each in turned))


def fit_urgent(counts: CountsAt, alpha: float) -> Urgent:
    """The lowest threshold that at most `alpha` of the lesions that are not malignant are shown to reach.

    Args:
        counts: at the thresholds that `propose_urgent` gave, `1 + kinds` rows.
        alpha: as there.
    """
    allowed = most_allowed(int(counts.n[0]), alpha)
    shown = [t for t, x in zip(counts.thresholds, counts.from_here[0], strict=True) if x <= allowed]
    from_bin = shown[0] if shown else SCORE_BINS
    x = counts.at(shown[:1]).from_here[:, 0] if shown else np.zeros_like(counts.n)
    others, malignant = int(counts.n[0]), int(counts.n[1:].sum())
    return Urgent(
        from_bin,
        Share.of(int(x[0]), others),
        lower_limit(int(x[1:].sum()), malignant, EACH_END),
        float(upper_limit(x[0], counts.n[0], EACH_END)),
    )


@dataclass(frozen=True)
class TriageFit:
    """The triage of a model, for all cases or those of a pattern.

    Attributes:
        missed: the share of each kind of malignancy that may be ruled out.
        false_alarms: the share of other lesions that may be urgent.
        ruled_out: what is ruled out: in each subgroup that it is for the share of each kind is in the limit.
        urgent: what is urgent, over all subgroups together.
    """

    missed: float
    false_alarms: float
    ruled_out: RuledOut
    urgent: Urgent


class MalignancyRules:
    """The thresholds on malignancy of a model: proposed by histograms, fitted by counts at the proposals.

    Attributes:
        proposed: score bins to count at, rising, at most `most_thresholds`.
    """

    def __init__(
        self, histograms: NDArray[np.int64], sensitivity: float | None, triage: TriageConfig | None
    ) -> None:
        """Propose thresholds.

        Args:
            histograms: of each subgroup that the model is for, `(subgroups, 1 + kinds, bins)`.
            sensitivity: the target of the working point; None for no such point.
            triage: None for no triage.
        """
        together = histograms.sum(axis=0)
        self._parts, self._rows = histograms.shape[:2]
        self._sensitivity, self._config = sensitivity, triage
        self._point = (
            () if sensitivity is None else propose_working_points(together[1:].sum(axis=0), sensitivity)
        )
        self._ruled_out = [] if triage is None else [propose_ruled_out(h, triage.missed) for h in histograms]
        self._urgent = () if triage is None else propose_urgent(together, triage.false_alarms)
        self.proposed = tuple(sorted({*self._point, *self._urgent, *chain(*self._ruled_out)}))

    def working_point(self, counts: CountsAt) -> WorkingPoint | None:
        """The working point, by counts of all rows at `proposed`; None where none is asked for."""
        if self._sensitivity is None:
            return None
        kinds = [row for row in range(self._parts * self._rows) if row % self._rows]
        return fit_working_point(counts.at(self._point).rows(kinds).together, self._sensitivity)

    def fit_triage(self, counts: CountsAt, named: Sequence[bool]) -> TriageFit | None:
        """Triage, by counts of all rows at `proposed`; None where none is asked for.

        Of a model for several subgroups the lowest of their thresholds rules out, and nothing where one has
        no proof: who declares no skin tone may be of any. No lesion at the working point or above is ruled
        out.

        Args:
            counts: the counts.
            named: of each subgroup, whether it is one of declared skin tones; the others need no proof.
        """
        if self._config is None:
            return None
        by_part = counts.between.reshape(self._parts, self._rows, -1)
        parts = [
            (CountsAt(counts.thresholds, part), proposed)
            for part, proposed, need in zip(by_part, self._ruled_out, named, strict=True)
            if need
        ]
        fits = [fit_ruled_out(part.at(proposed), self._config.missed) for part, proposed in parts]
        below = min((fit.below for fit in fits), default=0)
        point = self.working_point(counts)
        below = below if point is None else min(below, point.threshold_bin)
        together = CountsAt(counts.thresholds, by_part.sum(axis=0))
        ruled_out = worst_of([RuledOut.at(below, part) for part, _ in parts] or [RuledOut.at(0, together)])
        missed, false_alarms = self._config.missed, self._config.false_alarms
        return TriageFit(missed, false_alarms, ruled_out, fit_urgent(together.at(self._urgent), false_alarms))


def worst_of(fits: Sequence[RuledOut]) -> RuledOut:
    """What is known at one threshold of the subgroup where it is worst, of each kind and share by itself."""
    return RuledOut(
        fits[0].below,
        tuple(
            max(of_kind, key=lambda share: share.high)
            for of_kind in zip(*(f.missed for f in fits), strict=True)
        ),
        min(fit.others_low for fit in fits),
        max(fit.missed_high for fit in fits),
    )


def most_thresholds(places: int) -> int:
    """How many thresholds are counted at, at most, about so many parts of the lesions.

    Those of the working point and of what is urgent are of all parts together, those of what is ruled out of
    each.
    """
    return STEPS * (2 + places)


def count_malignancies(
    probabilities: NDArray[Any],
    labels: NDArray[np.int64],
    kinds: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest_cell: int,
) -> NDArray[np.int64]:
    """The histogram `(1 + kinds, bins)` of lesions by their malignancy; those of hospitals add up.

    Args:
        probabilities: `(pictures, classes)`.
        labels: class indices `(pictures,)`.
        kinds: the kind of malignancy of each class `(classes,)`, -1 of one that is not malignant.
        patients: of each picture, `(pictures,)`.
        smallest_cell: the fewest patients of a run.
    """
    scores = score_bin(malignancy_probability(probabilities, kinds >= 0))
    low, high = (merge(scores, patients, smallest_cell, pick, from_below=True) for pick in (lowest, highest))
    rows = kinds[labels] + 1
    places = rows * SCORE_BINS + np.where(rows == 0, high, low)
    size = int(kinds.max()) + 2
    return np.bincount(places, minlength=size * SCORE_BINS).astype(np.int64).reshape(size, SCORE_BINS)
