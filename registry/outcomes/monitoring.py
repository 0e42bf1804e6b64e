"""Evidence against a promise that may be looked at every day: the capital of a gambler who bets against it.

A promise says that the mean of X is at least 0. A gambler who begins with 1 and bets the share κ of their
capital against each multiplies it by 1 − κ X / b, where X ≤ b. While the promise holds, the capital is not
expected to grow, and by Ville's inequality it reaches 1/α at any time with probability α at most, however
often one looks (Waudby-Smith and Ramdas, JRSS B 86:1, 2024). Nobody knows the best κ, nor when a model turns
bad: the capital is spread over several κ, and over gamblers who begin at different times; a mean of such
capitals is one again. Those who begin late have lost nothing while all was well (as in Shin, Ramdas and
Rinaldo's e-detectors, 2023, but with shares that add up to one, so that the probability of one false alarm in
the whole time is bounded).

Promises as observations whose mean is at least 0 while they hold, weighed by who is followed up.

Of a malignant lesion that was called so, sensitivity σ or more is promised: the mean of X = called − σ is at
least 0 among all malignant lesions. Outcomes come of some of them, of those that were not called much more
seldom. Of the outcomes that are looked at together, `c_s` are of stratum s, benign ones included, and `a_s`
were answered: each counts `w_s`, in proportion to `a_s / c_s` and 1 at most (Horvitz and Thompson 1952,
scaled to stay within the bound of a bet). So the weights are of the same outcomes as the bet. They may be:
which answers come back says nothing of what they were, within a stratum (Begg and Greenes 1983). Given `a`
and `c`, with `p_s` the share of malignant ones, `h_s` whether the stratum is called so and b = 1 − σ, the
product of all 1 − κ w_s (h_s − σ) / b over the malignant outcomes is expected to be

    ∏_s (1 − p_s κ w_s (h_s − σ) / b)^{c_s}  ≤  exp(−κ / b · ∑_s c_s w_s p_s (h_s − σ)),

and as c_s w_s is in proportion to a_s, the sum is at least 0 while the promise holds: the bet is fair, in
whatever order and however late outcomes come, and whoever is followed up from when on. It takes `a_s` for the
shares of all who are ever answered.

Days whose outcomes are looked at together: until there are enough of either side of the working point.

When a window closes is decided by how many outcomes have come, whatever they say: so the rule chooses
nothing. A file that is imported is never divided, as all of it became known on one day.

Answers and their outcomes, counted by what was answered: the strata in which following up is alike.

Who is biopsied is not drawn at random: a lesion that was called suspicious is, one that was not is seldom
followed up. Within a stratum (a side of the working point, and a range of the probability of malignancy)
the followed up are taken to stand for the others: missing at random given the answer, as Begg and Greenes
have it.

Sensitivity and specificity in the field, as seen among the followed up and corrected for who they are.

Among the followed up sensitivity is too high: most missed lesions are among those that were not called
suspicious, and few of these are followed up. With N answers, n outcomes and m malignant ones in stratum s,
Begg and Greenes (Biometrics 39:207, 1983) estimate what it is among all who were asked:

    sensitivity = Σ_{s flagged} N_s m_s/n_s / Σ_s N_s m_s/n_s,
    specificity = Σ_{s not flagged} N_s (1 − m_s/n_s) / Σ_s N_s (1 − m_s/n_s).

It holds where, within a stratum, being followed up does not depend on the outcome; where clinicians see more
than the model did, the corrected figure may be too low.

The answers of one version to one subgroup, of all patterns together, with what became of the patients.

Figures of the field for whoever does not hold the database: Prometheus, pages, reports.

They are of outcomes as they stood when the last group of ten patients was whole
(`registry.outcomes.records`), so that the figures of two days differ by ten patients or by none; and of a
subgroup with fewer than ten malignant or ten benign lesions it is told how many outcomes it has, and
nothing of what they were. Whoever was told may so know what ten patients had together; where all ten had
the same, that is told of each.

What is no figure of outcomes is not held back: how many were answered, and that a promise is broken.

Watches one promise to one subgroup over days: what is held against it, and the first day of an alarm.

The report of a model in the field: figures by version and subgroup, and which promises are broken.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.intervals import LEVEL, Limits, beta_quantile, exact_limits
from registry.gates.gate import figures_by_subgroup, interval_of
from registry.gates.threshold import AT_WORKING_POINT
from registry.outcomes.counts import FieldCounts, field_counts
from registry.outcomes.records import CELLS, TOGETHER, UNKNOWN, Cell
from registry.outcomes.store import OutcomeStore

SHARES: Final = (0.05, 0.1, 0.2, 0.4)
"""Shares of the capital that are bet."""


def log_gains(
    x: NDArray[np.float64], most: float, step: NDArray[np.int64], steps: int
) -> NDArray[np.float64]:
    """The logarithm of what each share makes of a capital of 1 within each step, `(shares, steps)`.

    Args:
        x: observations, in any order, `(observations,)`; none above `most`.
        most: the bound b.
        step: the step that each belongs to.
        steps: how many there are.

    Raises:
        ValueError: an observation is above the bound.
    """
    if (x > most + 1e-12).any():
        raise ValueError(f"an observation of {x.max()} is above the bound {most}")
    return np.array([np.bincount(step, np.log1p(-share * x / most), minlength=steps) for share in SHARES])


def log_capital(gains: NDArray[np.float64], period: NDArray[np.int64], periods: int) -> NDArray[np.float64]:
    """The logarithm of the capital after each step, `(steps,)`.

    Args:
        gains: of `log_gains`, `(shares, steps)`.
        period: in which period each step ends, rising, `(steps,)`; in each period a new gambler begins.
        periods: how many periods there will be in all, over which the first capital is spread.

    Raises:
        ValueError: a step is in no period, or they are not in their order.
    """
    steps = gains.shape[1]
    if not steps:
        return np.zeros(0)
    if period[0] < 0 or period[-1] >= periods or (np.diff(period) < 0).any():
        raise ValueError("steps are not in the order of their periods")
    won = np.cumsum(gains, axis=1)
    total = np.full(steps, -np.inf)
    for start in np.searchsorted(period, np.arange(periods)):
        # Who begins here has bet from this step on, and has their whole capital before it.
        since = won - (won[:, start - 1, np.newaxis] if start else 0.0)
        capital = np.where(np.arange(steps) >= start, since, 0.0)
        total = np.logaddexp(total, np.logaddexp.reduce(capital, axis=0))
    evidence: NDArray[np.float64] = total - np.log(periods * len(SHARES))
    return evidence


FEW = 5
"""With fewer outcomes than so many in a stratum its side of the working point is weighed as one."""


def follow_up_weights(
    answered: NDArray[np.int64], confirmed: NDArray[np.int64], flagged: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The weight of an outcome in each stratum, each in (0, 1], `(strata,)`.

    Args:
        answered: answers, `(strata,)`.
        confirmed: outcomes that are weighed together, whatever they say; on either side of the working point
            that was answered there is one.
        flagged: which strata are above the working point.
    """
    inverse = np.zeros(len(answered))
    for side in (flagged, ~flagged):
        of = side & ((answered > 0) | (confirmed > 0))
        if not of.any():
            continue
        if (confirmed[of] < FEW).any():
            inverse[of] = answered[of].sum() / confirmed[of].sum()
        else:
            inverse[of] = answered[of] / confirmed[of]
    weights: NDArray[np.float64] = inverse / inverse.max()
    return np.where(weights > 0, weights, 1.0)


def kept_promise(
    hit: NDArray[np.bool_], weight: NDArray[np.float64], promised: float
) -> tuple[NDArray[np.float64], float]:
    """Observations of a promised share of hits, `(observations,)`, and their bound.

    Args:
        hit: whether each counts for the promise: a malignant lesion that was called so, a set that held the
            right class.
        weight: of each, from `follow_up_weights`.
        promised: the share that is promised, between 0 and 1.

    Raises:
        ValueError: nothing can be held against a promise of 0, and 1 is broken by one observation.
    """
    if not 0 < promised < 1:
        raise ValueError(f"a promised share of {promised} cannot be watched; it lies between 0 and 1")
    return weight * (hit - promised), 1 - promised


LEAST: Final = 20
"""A window closes with so many outcomes of each side that was answered."""

ANSWERS_DAYS: Final = 365
"""Weights look at the answers of so many days before a window closes."""


@dataclass(frozen=True)
class Windows:
    """Windows that have closed, in their order.

    Attributes:
        closed_on: the last day of each, `(windows,)`.
        weights: of an outcome in each stratum, `(windows, strata)`.
    """

    closed_on: NDArray[np.int64]
    weights: NDArray[np.float64]


def windows(
    answered: NDArray[np.int64],
    known_on: NDArray[np.int64],
    stratum: NDArray[np.int64],
    flagged: NDArray[np.bool_],
) -> Windows:
    """Divides days into windows.

    Args:
        answered: answers on each day in each stratum, `(days, strata)`.
        known_on: the day on which each outcome became known, whatever it says, `(outcomes,)`.
        stratum: of each.
        flagged: which strata are above the working point, `(strata,)`.
    """
    days, strata = answered.shape
    known = np.zeros((days, strata), dtype=np.int64)
    np.add.at(known, (known_on, stratum), 1)
    until = answered.cumsum(axis=0)
    closed_on: list[int] = []
    weights: list[NDArray[np.float64]] = []
    came = np.zeros(strata, dtype=np.int64)
    for day in np.unique(known_on):
        came = came + known[day]
        lately = until[day] - (until[day - ANSWERS_DAYS] if day >= ANSWERS_DAYS else 0)
        sides = [side for side in (flagged, ~flagged) if lately[side].any() or came[side].any()]
        if all(came[side].sum() >= LEAST for side in sides):
            closed_on.append(int(day))
            weights.append(follow_up_weights(lately, came, flagged))
            came = np.zeros(strata, dtype=np.int64)
    return Windows(np.array(closed_on, dtype=np.int64), np.array(weights).reshape(-1, strata))


Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Strata:
    """Counts by stratum, all `(strata,)`.

    Attributes:
        flagged: which strata are called malignant.
        answered: everybody who was answered.
        confirmed: those of them whose outcome is known.
        malignant: those of these who have a malignant lesion.
    """

    flagged: NDArray[np.bool_]
    answered: Counts
    confirmed: Counts
    malignant: Counts

    def __post_init__(self) -> None:
        """Checks what every stratum must hold.

        Raises:
            ValueError: more outcomes than answers, more malignant ones than outcomes, or negative counts.
        """
        if (self.malignant < 0).any() or (self.confirmed < self.malignant).any():
            raise ValueError("a stratum has more malignant outcomes than outcomes, or fewer than none")
        if (self.answered < self.confirmed).any():
            raise ValueError("a stratum has more outcomes than answers")

    @classmethod
    def count(
        cls,
        stratum: Counts,
        flagged: NDArray[np.bool_],
        confirmed: NDArray[np.bool_],
        malignant: NDArray[np.bool_],
    ) -> "Strata":
        """Counts of answers, each `(answers,)`; `malignant` says something where `confirmed` is alone.

        Args:
            stratum: of each answer, an index into `flagged`.
            flagged: of each stratum, `(strata,)`.
            confirmed: whose outcome is known.
            malignant: who has a malignant lesion.
        """
        size = len(flagged)
        return cls(
            flagged,
            np.bincount(stratum, minlength=size),
            np.bincount(stratum[confirmed], minlength=size),
            np.bincount(stratum[confirmed & malignant], minlength=size),
        )


Real = NDArray[np.float64]

_DRAWS = 4000
_SEED = 0  # the same counts have the same interval
_NEVER = 1e-9  # in place of 0, for which there is no distribution


@dataclass(frozen=True)
class FieldFigures:
    """Sensitivity and specificity at the working point, in the field.

    Attributes:
        answered: everybody who was answered.
        confirmed: those whose outcome is known.
        malignant: the malignant ones of these.
        seen_sensitivity, seen_specificity: among the followed up.
        sensitivity, specificity: corrected for who is followed up; nan where a stratum in which somebody was
            answered has no outcome at all.
    """

    answered: int
    confirmed: int
    malignant: int
    seen_sensitivity: Limits
    seen_specificity: Limits
    sensitivity: Limits
    specificity: Limits


UNKNOWN_LIMITS = Limits(np.array(np.nan), np.array(0.0), np.array(1.0))
"""A figure of which nothing is known."""


def no_figures(strata: Strata) -> FieldFigures:
    """The figures of a version that has no working point and no malignant class."""
    answered, confirmed, malignant = (
        int(each.sum()) for each in (strata.answered, strata.confirmed, strata.malignant)
    )
    return FieldFigures(
        answered, confirmed, malignant, UNKNOWN_LIMITS, UNKNOWN_LIMITS, UNKNOWN_LIMITS, UNKNOWN_LIMITS
    )


def field_figures(strata: Strata) -> FieldFigures:
    """Both figures, seen and corrected, each with its 95 % interval."""
    flagged, benign = strata.flagged, strata.confirmed - strata.malignant
    return FieldFigures(
        int(strata.answered.sum()),
        int(strata.confirmed.sum()),
        int(strata.malignant.sum()),
        _seen(int(strata.malignant[flagged].sum()), int(strata.malignant.sum())),
        _seen(int(benign[~flagged].sum()), int(benign.sum())),
        _corrected(strata, malignant=True),
        _corrected(strata, malignant=False),
    )


def _seen(x: int, n: int) -> Limits:
    found = exact_limits(np.array(x), np.array(n))
    return found if n else Limits(np.array(np.nan), found.low, found.high)


def _corrected(strata: Strata, *, malignant: bool) -> Limits:
    """Of the malignant the share that is flagged, or of the others the share that is not.

    N_s are as they are. What is uncertain is the share x/n of each stratum: its lower end is as Beta(x, n −
    x + 1) has it and its upper one as Beta(x + 1, n − x), whose quantiles are the exact limits (Clopper and
    Pearson 1934). The interval's low end takes the lower of the strata that count for the figure and the
    upper of the others, and its high end the other way round: it is rather too wide than too narrow where
    outcomes are few.
    """
    asked = strata.answered > 0
    n, x = strata.confirmed[asked], strata.malignant[asked]
    if not n.any():
        return UNKNOWN_LIMITS
    x = x if malignant else n - x
    hit = strata.flagged[asked] if malignant else ~strata.flagged[asked]
    answered = strata.answered[asked]
    random = np.random.default_rng(_SEED)
    lower = random.beta(np.maximum(x, _NEVER), n - x + 1, (_DRAWS, len(n))) * answered
    upper = random.beta(x + 1, np.maximum(n - x, _NEVER), (_DRAWS, len(n))) * answered
    low = np.quantile(_share(np.where(hit, lower, upper), hit, 0.0), (1 - LEVEL) / 2)
    high = np.quantile(_share(np.where(hit, upper, lower), hit, 1.0), (1 + LEVEL) / 2)
    value = np.nan
    if n.all() and x.any():
        expected = answered * x / n
        value = expected[hit].sum() / expected.sum()
    return Limits(np.array(value), np.array(low), np.array(high))


def _share(drawn: Real, hit: NDArray[np.bool_], of_none: float) -> Real:
    """The part of each draw that lies in the strata that count, `(draws, strata)` to `(draws,)`."""
    whole = drawn.sum(axis=1)
    return np.where(whole > 0, drawn[:, hit].sum(axis=1) / np.maximum(whole, _NEVER), of_none)


_CELLS = [Cell.of(number) for number in range(CELLS)]
_ABOVE = np.array([cell.side == "above" for cell in _CELLS])
_REPORTED = np.array([cell.decision == "report" for cell in _CELLS])
_NONE = np.array([cell.side == "none" for cell in _CELLS])

FLAGGED = np.array([False, False, True, True])
"""Which strata are above the working point: on either side one of reported answers, and one of others.

They do not depend on what was seen, or looking again would change what was seen before.
"""

STRATUM = 2 * _ABOVE + _REPORTED
"""The stratum of each cell, `(CELLS,)`."""


@dataclass(frozen=True)
class Seen:
    """Answers in strata, and the outcomes that are known, in the order in which they became so.

    Attributes:
        first: the day from which days are counted.
        answered: by day and stratum, `(days, strata)`.
        reported: answers that were reported and not referred.
        has_working_point: whether all answers lie on a side of a working point.
        answered_on: the day of each answer whose outcome is known, `(outcomes,)`.
        known_on: the day on which that became known.
        stratum: of each.
        malignant: whether the outcome is malignant.
        in_set: whether the prediction set held it.
    """

    first: date
    answered: NDArray[np.int64]
    reported: int
    has_working_point: bool
    answered_on: NDArray[np.int64]
    known_on: NDArray[np.int64]
    stratum: NDArray[np.int64]
    malignant: NDArray[np.bool_]
    in_set: NDArray[np.bool_]

    @property
    def strata(self) -> Strata:
        """The counts of all days together."""
        everybody = np.ones(len(self.stratum), dtype=np.bool_)
        counted = Strata.count(self.stratum, FLAGGED, everybody, self.malignant)
        return Strata(FLAGGED, self.answered.sum(axis=0), counted.confirmed, counted.malignant)


def by_subgroup(counts: Sequence[FieldCounts]) -> list[tuple[int, str, list[FieldCounts]]]:
    """Counts of all patterns together: each version and subgroup, as `field_counts` has them in order."""
    groups = groupby(counts, key=lambda one: (one.answering.version, one.answering.subgroup))
    return [(version, subgroup, list(those)) for (version, subgroup), those in groups]


def seen(counts: Sequence[FieldCounts]) -> Seen:
    """What was seen of one version and one subgroup; `counts` are of its patterns, at least one."""
    first = min(one.first for one in counts)
    shifts = [(one.first - first).days for one in counts]
    days = max(len(one.answered) + shift for one, shift in zip(counts, shifts, strict=True))
    answered = np.zeros((days, CELLS), dtype=np.int64)
    for one, shift in zip(counts, shifts, strict=True):
        answered[shift : shift + len(one.answered)] += one.answered
    shifted = list(zip(counts, shifts, strict=True))
    known_on = np.concatenate([one.known_on + shift for one, shift in shifted])
    order = np.argsort(known_on, kind="stable")
    cell = np.concatenate([one.cell for one in counts])[order]
    sides = [np.array([malignant for _, malignant in one.answering.labels]) for one in counts]
    malignant = np.concatenate([side[one.truth] for side, one in zip(sides, counts, strict=True)])[order]
    by_stratum = np.zeros((days, len(FLAGGED)), dtype=np.int64)
    for number in range(CELLS):
        by_stratum[:, STRATUM[number]] += answered[:, number]
    return Seen(
        first,
        by_stratum,
        int(answered[:, _REPORTED].sum()),
        not answered[:, _NONE].any(),
        np.concatenate([one.answered_on + shift for one, shift in shifted])[order],
        known_on[order],
        STRATUM[cell],
        malignant,
        np.concatenate([one.in_set for one in counts])[order],
    )


def coverage_of(in_set: NDArray[np.bool_]) -> Limits:
    """How often prediction sets held what it was; without outcomes nothing is known."""
    found = exact_limits(np.array(in_set.sum()), np.array(len(in_set)))
    return found if len(in_set) else Limits(np.array(np.nan), found.low, found.high)


@dataclass(frozen=True)
class ReleasedFigures:
    """What may be told of one version and one subgroup.

    Attributes:
        version: its number.
        subgroup: whom it answered.
        answered: how many, as of now.
        outcomes: how many are settled.
        figures: of the settled ones; None where too few are malignant or too few benign, or where the version
            has no working point.
        coverage: how often the prediction set held what it was; None with the figures.
    """

    version: int
    subgroup: str
    answered: int
    outcomes: int
    figures: FieldFigures | None
    coverage: Limits | None = None

    @property
    def sensitivity(self) -> Limits | None:
        """Corrected, at the working point."""
        return None if self.figures is None else self.figures.sensitivity

    @property
    def specificity(self) -> Limits | None:
        """Corrected, at the working point."""
        return None if self.figures is None else self.figures.specificity


def released_figures(store: OutcomeStore, model: str) -> list[ReleasedFigures]:
    """What may be told of a model, by version and subgroup.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    counts = field_counts(store, model, only_settled=True)
    found = []
    for version, subgroup, those in by_subgroup(counts):
        of = seen(those)
        outcomes, malignant = len(of.malignant), int(of.malignant.sum())
        enough = min(malignant, outcomes - malignant) >= TOGETHER and of.has_working_point
        answered = int(of.answered.sum())
        figures = field_figures(of.strata) if enough else None
        covered = coverage_of(of.in_set) if enough else None
        found.append(ReleasedFigures(version, subgroup, answered, outcomes, figures, covered))
    return found


YEAR: Final = 365
"""Days for which a promise is watched with one α; then gamblers begin anew."""

PERIOD_DAYS: Final = 61
"""So often a new gambler begins to bet."""


@dataclass(frozen=True)
class KnownOutcomes:
    """Answers whose outcome is known and that a promise is about.

    Attributes:
        known_on: the day on which the outcome of each became known, `(outcomes,)`.
        stratum: of each.
        hit: whether each counts for the promise.
    """

    known_on: NDArray[np.int64]
    stratum: NDArray[np.int64]
    hit: NDArray[np.bool_]


@dataclass(frozen=True)
class Watched:
    """What was held against a promise.

    Attributes:
        evidence: the logarithm of the gamblers' capital after each window, since its year began,
            `(windows,)`.
        alarm_on: the day on which it first reached 1/α; None where it did not.
    """

    evidence: NDArray[np.float64]
    alarm_on: int | None


def watch(outcomes: KnownOutcomes, within: Windows, promised: float, alpha: float) -> Watched:
    """Holds outcomes against a promised share of hits.

    Args:
        outcomes: of the answers that the promise is about; those after the last window wait for the next.
        within: the windows, whose weights correct for who is followed up.
        promised: the least share of hits.
        alpha: how often a promise that is kept may be accused in a year.
    """
    closed_on = within.closed_on
    window = np.searchsorted(closed_on, outcomes.known_on)
    seen = window < len(closed_on)
    weight = within.weights[window[seen], outcomes.stratum[seen]]
    x, most = kept_promise(outcomes.hit[seen], weight, promised)
    gains = log_gains(x, most, window[seen], len(closed_on))
    year, day = np.divmod(closed_on, YEAR)
    evidence = np.zeros(len(closed_on))
    for each in np.unique(year):
        of = year == each
        evidence[of] = log_capital(gains[:, of], day[of] // PERIOD_DAYS, -(-YEAR // PERIOD_DAYS))
    alarms = np.flatnonzero(evidence >= -np.log(alpha))
    return Watched(evidence, int(closed_on[alarms[0]]) if alarms.size else None)


ALPHA: Final = 0.05
"""How often all the promises of a model that are kept may bring one alarm in a year, together."""

What = Literal["sensitivity", "coverage"]

Key = tuple[int, str, str]
"""Which promise: the version's number, the subgroup, and what was promised of it."""


@dataclass(frozen=True)
class Promise:
    """A share that a version has promised to a subgroup.

    Attributes:
        what: of what.
        least: the share.
        why: where that is said.
    """

    what: What
    least: float
    why: str


@dataclass(frozen=True)
class Kept:
    """A promise, and what speaks against it.

    Attributes:
        promise: which.
        outcomes: how many it is held against, of those since an alarm was closed.
        evidence: the capital of those who bet against it, 1 as a year begins; broken at `limit` or more.
        limit: how much that takes.
        broken_on: the day of the alarm; None where there is none.
        windows: how often enough outcomes had come to weigh them; nothing is watched where it is 0.
    """

    promise: Promise
    outcomes: int
    evidence: float
    limit: float
    broken_on: date | None
    windows: int


@dataclass(frozen=True)
class SubgroupInField:
    """One version and one subgroup that it answered.

    Attributes:
        version: its number.
        made_for: the subgroup that it was made for.
        subgroup: whom it answered.
        since: the day of the first answer.
        figures: sensitivity and specificity at the working point, seen and corrected.
        coverage: how often the prediction set held what it was, among the followed up.
        reported: the share of answers that were reported.
        kept: its promises.
    """

    version: int
    made_for: str
    subgroup: str
    since: date
    figures: FieldFigures
    coverage: Limits
    reported: float
    kept: tuple[Kept, ...]

    @property
    def alarms(self) -> tuple[Kept, ...]:
        """The broken promises."""
        return tuple(one for one in self.kept if one.broken_on is not None)


def field_report(
    store: OutcomeStore,
    model: str,
    manifest_of: Callable[[int], BundleManifest | None],
    closed: Mapping[Key, date] = MappingProxyType({}),
) -> list[SubgroupInField]:
    """The report of a model, by version and subgroup.

    Args:
        store: where answers and outcomes are.
        model: its name.
        manifest_of: gives the manifest of a version by its number, for what it promises; without one it
            promises nothing. Asked once for each version that has answered.
        closed: the day on which an alarm of a promise was closed. What became known until then is spent, and
            the promise is watched anew: each closing lets it be accused once more with its α.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    counts = field_counts(store, model)
    manifests = {version: manifest_of(version) for version in {one.answering.version for one in counts}}
    groups = by_subgroup(counts)
    promised = [
        () if subgroup == UNKNOWN else promises(manifests[version], subgroup)
        for version, subgroup, _ in groups
    ]
    watched = max(1, sum(map(len, promised)))
    return [
        _of(version, subgroup, those, of, ALPHA / watched, closed)
        for (version, subgroup, those), of in zip(groups, promised, strict=True)
    ]


def promises(manifest: BundleManifest | None, subgroup: str) -> tuple[Promise, ...]:
    """What a version promises to a subgroup: the sensitivity and the coverage that it was sure of."""
    if manifest is None:
        return ()
    found = []
    own = figures_by_subgroup(manifest).get(subgroup) if manifest.subgroup.is_global else manifest.metrics
    ends = interval_of(own, AT_WORKING_POINT) if isinstance(own, Mapping) else None
    if ends is not None and 0 < ends[0] < 1:
        found.append(Promise("sensitivity", ends[0], "the lower end of the interval on test pictures"))
    conformal = manifest.conformal
    for_them = conformal.guarantee == "subgroup" and manifest.subgroup.name == subgroup
    if for_them and (least := _sure_coverage(conformal.alpha, conformal.n)):
        found.append(Promise("coverage", least, "what sets of as many lesions hold but for 1 in 40"))
    return tuple(found)


def _sure_coverage(alpha: float, n: int) -> float:
    """The coverage of prediction sets that all but 1 in 40 calibrations on n lesions have; 0 where none is.

    Given its calibration, a split conformal set covers Beta(k, n + 1 - k) of what is to come, with
    k = ceil((n + 1)(1 - alpha)): half of all calibrations cover less than they aim at (Vovk 2012).
    """
    k = math.ceil((n + 1) * (1 - alpha))
    if not 0 < k <= n:
        return 0.0
    return float(beta_quantile((1 - LEVEL) / 2, np.array(float(k)), np.array(float(n + 1 - k))))


def _of(
    version: int,
    subgroup: str,
    counts: list[FieldCounts],
    promised: tuple[Promise, ...],
    alpha: float,
    closed: Mapping[Key, date],
) -> SubgroupInField:
    found = seen(counts)
    answered = int(found.answered.sum())
    return SubgroupInField(
        version,
        counts[0].answering.made_for,
        subgroup,
        found.first,
        field_figures(found.strata) if found.has_working_point else no_figures(found.strata),
        coverage_of(found.in_set),
        found.reported / answered,
        tuple(_kept(one, found, alpha, closed.get((version, subgroup, one.what))) for one in promised),
    )


def _kept(promise: Promise, found: Seen, alpha: float, closed: date | None) -> Kept:
    about = found.malignant if promise.what == "sensitivity" else np.ones(len(found.stratum), dtype=np.bool_)
    since = found.known_on > (-1 if closed is None else (closed - found.first).days)
    about = about & since
    hit = FLAGGED[found.stratum] if promise.what == "sensitivity" else found.in_set
    outcomes = KnownOutcomes(found.known_on[about], found.stratum[about], hit[about])
    within = windows(found.answered, found.known_on[since], found.stratum[since], FLAGGED)
    watched = watch(outcomes, within, promise.least, alpha)
    return Kept(
        promise,
        len(outcomes.hit),
        float(np.exp(watched.evidence[-1])) if len(watched.evidence) else 1.0,
        1 / alpha,
        None if watched.alarm_on is None else found.first + timedelta(days=watched.alarm_on),
        len(watched.evidence),
    )
