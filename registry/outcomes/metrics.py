"""Metrics from outcomes, by version and subgroup, and the evidence that a version misses its target.

**Who is followed up is no matter of chance**: a lesion that was called suspicious is biopsied, and a missed
one seldom comes back. Answers are therefore counted in four strata, by the side of the working point and
whether they were reported, and within a stratum the patients with an outcome represent the others. With N
answers, n outcomes and m malignant ones in stratum s, the corrected metrics are (Begg and Greenes, Biometrics
39:207, 1983)

    sensitivity = Σ_{s above} N_s m_s/n_s / Σ_s N_s m_s/n_s,
    specificity = Σ_{s below} N_s (1 − m_s/n_s) / Σ_s N_s (1 − m_s/n_s).

**Evidence that may be looked at every day**: the capital of gamblers who bet against a target, "X has a mean
of at least 0". Who stakes the share κ of the capital on each X ≤ b multiplies it by 1 − κ X / b. While the
target holds, the capital is not expected to grow, and reaches 1/α at any time with probability α at most
(Ville's inequality; Waudby-Smith and Ramdas, JRSS B 86:1, 2024). The capital is spread over several κ and
over gamblers who begin in different months: those who begin late have lost nothing while all was well.

**Windows**: a bet is made on the outcomes of some days together, once there are enough of either side. Which
days is decided by how many outcomes arrived, whatever they say, and the weights are of the same outcomes:
with c_s outcomes and a_s answers, an outcome of stratum s has the weight w_s ∝ a_s / c_s ≤ 1. For a
sensitivity σ, p_s the share of malignant lesions, h_s = 1 above the working point and b = 1 − σ, the product
of all factors is expected to be

    ∏_s (1 − p_s κ w_s (h_s − σ) / b)^{c_s}  ≤  exp(−κ / b · ∑_s c_s w_s p_s (h_s − σ))  ≤  1

while the target holds, in whatever order and however late outcomes come. An outcome stays in the window of
its first arrival when it is corrected, and years and months are the calendar's: neither a correction nor
answers that are forgotten rearrange other windows, which would be a further look at the same data.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from registry.bundle.decision import Level
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.intervals import LEVEL, clopper_pearson
from registry.bundle.metrics.patient import told
from registry.database.connection import reading
from registry.gates.gate import figures_by_subgroup
from registry.gates.threshold import AT_WORKING_POINT
from registry.outcomes.store import (
    CELLS,
    DECISIONS,
    SIDES,
    TRIAGES,
    UNKNOWN,
    AnsweringRow,
    AnswerRow,
    OutcomeRow,
    OutcomeStore,
)

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Real = NDArray[np.float64]
Key = tuple[int, str, str]
"""A target: the number of the version, the subgroup, and the name of the metric."""

ALPHA: Final = 0.05  # of all targets of a model together, in a year
LEAST: Final = 20  # outcomes of either side in a window
FEW: Final = 5  # a stratum with fewer outcomes is weighed together with its side
ANSWERS_DAYS: Final = 365  # weights are by the answers of so many days before a window ends
PERIOD_DAYS: Final = 61  # how often gamblers begin
SHARES: Final = np.array([[0.05], [0.1], [0.2], [0.4]])  # κ
GROUP: Final = 10  # patients whose outcomes are released together, as `privacy.min_count` in training

_SIDE, _DECISION = np.divmod(np.arange(CELLS) % (len(SIDES) * len(DECISIONS)), len(DECISIONS))
_REPORTED = np.equal(_DECISION, DECISIONS.index("report"))
_NO_SIDE = np.equal(_SIDE, SIDES.index("none"))
STRATUM: Final[Counts] = 2 * np.equal(_SIDE, SIDES.index("above")) + _REPORTED  # of each cell
ABOVE: Final[Flags] = np.array([False, False, True, True])  # strata above the working point


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval; None where it is unknown."""

    value: float | None = None
    interval: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class TriageOutcomes:
    """What the lesions of one level of triage turned out to be.

    Attributes:
        level: of triage.
        outcomes: lesions with an outcome.
        malignant: how many of them had each malignant disease, by code.
        share: of malignant ones among them.
    """

    level: Level
    outcomes: int
    malignant: Mapping[str, int]
    share: Share


@dataclass(frozen=True)
class Monitored:
    """The answers of one version to one subgroup, and the outcomes in the order in which they first arrived.

    Attributes:
        version, made_for, subgroup: of the answers.
        first: the day that is day 0 of all days.
        answered: answers by day and stratum, `(days, strata)`.
        reported: how many answers were reported.
        has_working_point: whether all answers are on a side of a working point.
        arrived: the day on which the first outcome of an answer became known, rising, `(outcomes,)`.
        stratum: of each answer with an outcome.
        known: whether its outcome was not withdrawn.
        malignant, in_set: whether the last outcome is malignant, and in the prediction set.
        triaged: the outcomes by level of triage; empty without triage.
    """

    version: int
    made_for: str
    subgroup: str
    first: date
    answered: Counts
    reported: int
    has_working_point: bool
    arrived: Counts
    stratum: Counts
    known: Flags
    malignant: Flags
    in_set: Flags
    triaged: tuple[TriageOutcomes, ...] = ()


def monitored(store: OutcomeStore, model: str, *, in_groups: bool = False) -> list[Monitored]:
    """The answers and outcomes of a model, by version and subgroup.

    Args:
        store: where they are.
        model: its name.
        in_groups: whether to read outcomes as they were when the last group of patients was complete.

    Raises:
        DatabaseError: they cannot be read.
    """
    given = (
        sa.select(AnswerRow, OutcomeRow.label.label("truth"), OutcomeRow.known_on)
        .join(OutcomeRow, OutcomeRow.answer == AnswerRow.id)
        .join(AnsweringRow, AnsweringRow.id == AnswerRow.answering)
        .where(AnsweringRow.model == model)
        .order_by(OutcomeRow.number)
    )
    answering = sa.select(AnsweringRow).where(AnsweringRow.model == model)
    counted = sa.select(AnswerRow.day, AnswerRow.cell, sa.func.count().label("n"))
    counted = counted.group_by(AnswerRow.day, AnswerRow.cell)
    outcomes = defaultdict[int, list[Any]](list)
    with reading(store.engine) as connection:
        versions = connection.execute(answering.order_by(AnsweringRow.version, AnsweringRow.subgroup)).all()
        # One version at a time, in the order of the index: millions of answers are counted in seconds.
        counts = [connection.execute(counted.where(AnswerRow.answering == one.id)).all() for one in versions]
        for row in connection.execute(given):
            outcomes[row.answering].append(row)
    return [
        _monitored(one, of, complete_groups(outcomes[one.id]) if in_groups else outcomes[one.id])
        for one, of in zip(versions, counts, strict=True)
        if of
    ]


def complete_groups(rows: Sequence[Any]) -> Sequence[Any]:
    """The rows up to the end of the last complete group of patients.

    A reader of daily metrics who knows whose outcome came today would learn what it was. Metrics for others
    than the database's owner therefore change by groups: the first ten patients, in the order in which
    anything was given about them, then the next ten. What is given about the patients of an incomplete group
    does not count yet, corrections and withdrawals among it.
    """
    complete, group = 0, set[str]()
    for place, row in enumerate(rows, 1):
        group.add(row.id)
        if len(group) == GROUP:
            complete, group = place, set()
    return rows[:complete]


def _monitored(version: Any, counted: Sequence[Any], given: Sequence[Any]) -> Monitored:
    arrived = {row.id: max(row.known_on, row.day) for row in reversed(given)}
    rows = sorted({row.id: row for row in given}.values(), key=lambda row: arrived[row.id])
    first = min(row.day for row in counted)
    days = (max([*(row.day for row in counted), *arrived.values()]) - first).days + 1
    cells = np.zeros((days, CELLS), dtype=np.int64)
    for row in counted:
        cells[(row.day - first).days, row.cell] += row.n
    known = np.array([row.truth is not None for row in rows], dtype=np.bool_)
    malignant = [known[i] and version.labels[row.truth][1] for i, row in enumerate(rows)]
    in_set = [known[i] and row.in_set[row.truth] == "1" for i, row in enumerate(rows)]
    return Monitored(
        version.version,
        version.made_for,
        version.subgroup,
        first,
        cells @ np.equal.outer(STRATUM, np.arange(len(ABOVE))),
        int(cells[:, _REPORTED].sum()),
        not cells[:, _NO_SIDE].any(),
        np.array([(arrived[row.id] - first).days for row in rows], dtype=np.int64),
        STRATUM[np.array([row.cell for row in rows], dtype=np.int64)],
        known,
        np.array(malignant, dtype=np.bool_),
        np.array(in_set, dtype=np.bool_),
        tuple(_triaged(version.labels, [row for row in rows if row.truth is not None])),
    )


def _triaged(labels: Sequence[tuple[str, bool]], rows: Sequence[Any]) -> Iterator[TriageOutcomes]:
    """The known outcomes by level of triage, the levels in order."""
    of = Counter((TRIAGES[row.cell // (len(SIDES) * len(DECISIONS))], row.truth) for row in rows)
    levels = [level for level in TRIAGES if level is not None]
    if not any((level, truth) in of for level in levels for truth in range(len(labels))):
        return
    for level in levels:
        n = sum(of[level, truth] for truth in range(len(labels)))
        ill = {code: of[level, truth] for truth, (code, malignant) in enumerate(labels) if malignant}
        yield TriageOutcomes(level, n, ill, _share(sum(ill.values()), n))


@dataclass(frozen=True)
class Seen:
    """A metric among the patients with an outcome."""

    seen: Share = Share()


@dataclass(frozen=True)
class Corrected(Seen):
    """The same, corrected for who is followed up; unknown where a stratum with answers has no outcome."""

    corrected: Share = Share()


@dataclass(frozen=True)
class Metrics:
    """Sensitivity and specificity at the working point, and how often prediction sets were right."""

    sensitivity: Corrected
    specificity: Corrected
    coverage: Seen


def metrics(of: Monitored) -> Metrics:
    """The metrics of a version and a subgroup; without a working point only the coverage is known."""
    stratum, ill = of.stratum[of.known], of.malignant[of.known]
    malignant, benign = (np.bincount(stratum[each], minlength=len(ABOVE)) for each in (ill, ~ill))
    in_set = of.in_set[of.known]
    coverage = Seen(_share(in_set.sum(), len(in_set)))
    if not of.has_working_point:
        return Metrics(Corrected(), Corrected(), coverage)
    answered, outcomes = of.answered.sum(axis=0), malignant + benign
    return Metrics(
        Corrected(
            _share(malignant[ABOVE].sum(), malignant.sum()), corrected(answered, outcomes, malignant, ABOVE)
        ),
        Corrected(_share(benign[~ABOVE].sum(), benign.sum()), corrected(answered, outcomes, benign, ~ABOVE)),
        coverage,
    )


def _share(x: int, n: int) -> Share:
    return Share(float(x / n), clopper_pearson(x, n)) if n else Share()


def corrected(answered: Counts, outcomes: Counts, x: Counts, hit: Flags) -> Share:
    """The share of the strata `hit` among all x, estimated for all who got an answer.

    The N_s are fixed. What is uncertain is the share x/n of each stratum, whose exact limits (Clopper and
    Pearson 1934) are quantiles of Beta(x, n − x + 1) and Beta(x + 1, n − x). The lower end of the interval
    takes draws of the first for the strata `hit` and of the second for the others, and the upper end the
    other way round: with few outcomes it is rather too wide than too narrow.

    Args:
        answered: N by stratum.
        outcomes: n by stratum.
        x: the malignant (or benign) ones of these.
        hit: the strata whose answers are right for them.
    """
    some = answered > 0
    n, x, hit, weight = outcomes[some], x[some], hit[some], answered[some]
    if not n.any():
        return Share()
    random = np.random.default_rng(0)  # the same counts have the same interval
    tiny, draws = 1e-9, (4000, len(n))  # there is no Beta distribution of 0
    lower = random.beta(np.maximum(x, tiny), n - x + 1, draws) * weight
    upper = random.beta(x + 1, np.maximum(n - x, tiny), draws) * weight

    def share(right: Real, wrong: Real, of_none: float) -> Real:
        part = (right * hit).sum(axis=1)
        whole = part + (wrong * ~hit).sum(axis=1)
        return np.where(whole > 0, part / np.maximum(whole, tiny), of_none)

    low = np.quantile(share(lower, upper, 0.0), (1 - LEVEL) / 2)
    high = np.quantile(share(upper, lower, 1.0), (1 + LEVEL) / 2)
    value = None
    if n.all() and x.any():
        expected = weight * x / n
        value = float(expected[hit].sum() / expected.sum())
    return Share(value, (float(low), float(high)))


def follow_up_weights(answered: Counts, outcomes: Counts) -> Real:
    """The weight of an outcome in each stratum, from 0 to 1, `(strata,)`.

    Args:
        answered: answers by stratum.
        outcomes: those that are weighed together, whatever they say; some on each side that was answered.
    """
    inverse = np.zeros(len(answered))
    for side in (ABOVE, ~ABOVE):
        of = side & ((answered > 0) | (outcomes > 0))
        if of.any() and (outcomes[of] < FEW).any():
            inverse[of] = answered[of].sum() / outcomes[of].sum()
        else:
            inverse[of] = answered[of] / outcomes[of]
    weights: Real = inverse / max(inverse.max(), 1.0)
    return weights


class Windows(NamedTuple):
    """The first and the last day of each window, `(windows,)`, and its weights, `(windows, strata)`."""

    first: Counts
    last: Counts
    weights: Real


def windows(of: Monitored, since: int = 0) -> Windows:
    """Divide the outcomes into windows.

    A year begins with a new window. Where all outcomes of a side were withdrawn the weights are 0.

    Args:
        of: answers and outcomes.
        since: the first day whose outcomes count.
    """
    answered, arrived, known = (
        np.zeros((len(of.answered) + 1, len(ABOVE)), dtype=np.int64) for _ in range(3)
    )
    answered[1:] = of.answered
    np.add.at(arrived, (of.arrived + 1, of.stratum), 1)
    np.add.at(known, (of.arrived[of.known] + 1, of.stratum[of.known]), 1)
    answered, arrived, known = (each.cumsum(axis=0) for each in (answered, arrived, known))  # before a day
    first, last = list[int](), list[int]()
    weights: list[Real] = []
    start, year = since, 0
    for day in np.unique(of.arrived[of.arrived >= since]).tolist():
        if (this := (of.first + timedelta(days=day)).year) != year:
            start, year = day, this
        end = day + 1
        lately = answered[end] - answered[max(0, end - ANSWERS_DAYS)]
        came, stand = arrived[end] - arrived[start], known[end] - known[start]
        sides = [side for side in (ABOVE, ~ABOVE) if lately[side].any() or came[side].any()]
        if all(came[side].sum() >= LEAST for side in sides):
            usable = all(stand[side].any() for side in sides)
            weights.append(follow_up_weights(lately, stand) if usable else np.zeros(len(ABOVE)))
            first.append(start)
            last.append(day)
            start = end
    days = np.array([first, last], dtype=np.int64)
    return Windows(days[0], days[1], np.array(weights).reshape(-1, len(ABOVE)))


def log_capital(gains: Real, period: Counts) -> Real:
    """The logarithm of the mean capital after each window of a year, `(windows,)`.

    Args:
        gains: the logarithm of what each share makes of a capital of 1 in each window, `(shares, windows)`.
        period: of each window, rising; a gambler begins in each of the year's periods.
    """
    periods = -(-366 // PERIOD_DAYS)
    windows_ = np.arange(gains.shape[1])
    won = np.cumsum(gains, axis=1)
    total = np.full(gains.shape[1], -np.inf)
    for start in np.searchsorted(period, np.arange(periods)):
        before = won[:, start - 1, np.newaxis] if start else 0.0
        capital = np.where(windows_ >= start, won - before, 0.0)  # all of it until the gambler begins
        total = np.logaddexp(total, np.logaddexp.reduce(capital, axis=0))
    evidence: Real = total - np.log(periods * len(SHARES))
    return evidence


def evidence(of: Monitored, metric: str, least: float, since: int = 0) -> tuple[Counts, Real]:
    """The last day of each window, and the logarithm of the capital then, since its year began, `(windows,)`.

    Args:
        of: answers and outcomes.
        metric: sensitivity or coverage.
        least: the target, between 0 and 1.
        since: the first day whose outcomes count.
    """
    first, ends, weights = windows(of, since)
    about, hit = (of.malignant, ABOVE[of.stratum]) if metric == "sensitivity" else (of.known, of.in_set)
    window = np.searchsorted(ends, of.arrived)
    used = about & (window < len(ends))
    used[used] = of.arrived[used] >= first[window[used]]  # the last outcomes of a year are in no window
    window, x = window[used], weights[window[used], of.stratum[used]] * (hit[used] - least)
    gained = np.log1p(-SHARES * x / (1 - least))
    gains = np.array([np.bincount(window, each, minlength=len(ends)) for each in gained])
    day = np.datetime64(of.first) + ends
    year = day.astype("datetime64[Y]")
    period = (day - year.astype("datetime64[D]")).astype(np.int64) // PERIOD_DAYS
    capital = np.zeros(len(ends))
    for each in np.unique(year):
        those = year == each
        capital[those] = log_capital(gains[:, those], period[those])
    return ends, capital


@dataclass(frozen=True)
class Target:
    """A least value that a version is held to, and what outcomes say against it.

    Attributes:
        of: the metric, sensitivity or coverage.
        least: its least value.
        why: where it comes from.
        outcomes: how many it was held against, of those since an alarm was closed.
        evidence: the capital against it, 1 as a year begins; missed at `limit` or more.
        limit: how much that takes.
        broken_on: the day on which it was first reached; None where it was not.
        windows: how often there were enough outcomes to weigh them; 0 where nothing is monitored yet.
    """

    of: Literal["sensitivity", "coverage"]
    least: float
    why: str
    outcomes: int = 0
    evidence: float = 1.0
    limit: float = 1 / ALPHA
    broken_on: date | None = None
    windows: int = 0


@dataclass(frozen=True)
class SubgroupReport:
    """The metrics of one version and one subgroup that it answered.

    Attributes:
        version, made_for, subgroup: the version's number, and for whom it was made; whom it answered.
        since: the day of the first answer.
        answered, outcomes, malignant: how many answers, known outcomes, and malignant ones there are.
        reported: the share of answers that were reported.
        metrics: None, as `malignant`, where too few outcomes are known to release them.
        targets: the version's, for this subgroup.
        triage: what lesions turned out to be, by level; for the owner of the database alone.
    """

    version: int
    made_for: str
    subgroup: str
    since: date
    answered: int
    outcomes: int
    malignant: int | None
    reported: float
    metrics: Metrics | None
    targets: tuple[Target, ...] = ()
    triage: tuple[TriageOutcomes, ...] = ()


def report(
    store: OutcomeStore,
    model: str,
    manifest_of: Callable[[int], BundleManifest | None],
    closed: Mapping[Key, date] = MappingProxyType({}),
) -> list[SubgroupReport]:
    """The metrics of a model by version and subgroup, for the owner of the database.

    Args:
        store: where answers and outcomes are.
        model: its name.
        manifest_of: gives the manifest of a version by its number; without one it has no targets.
        closed: the day on which the last alarm of a target was closed. Outcomes that arrived until then do
            not count against it any more.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    found = monitored(store, model)
    manifests = {version: manifest_of(version) for version in {one.version for one in found}}
    all_targets = [
        () if one.subgroup == UNKNOWN else targets(manifests[one.version], one.subgroup) for one in found
    ]
    alpha = ALPHA / max(1, sum(map(len, all_targets)))
    return [
        replace(
            _report(one, metrics(one), tuple(_held(target, one, alpha, closed) for target in those)),
            triage=one.triaged,
        )
        for one, those in zip(found, all_targets, strict=True)
    ]


def released_report(store: OutcomeStore, model: str) -> list[SubgroupReport]:
    """The metrics of a model that others than the owner of the database may see.

    They are of complete groups of patients, and withheld where fewer than ten malignant or ten benign
    outcomes are known. How many were answered is as of now.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    found = []
    for one in monitored(store, model, in_groups=True):
        malignant, known = int(one.malignant.sum()), int(one.known.sum())
        enough = min(malignant, known - malignant) >= GROUP and one.has_working_point
        found.append(_report(one, metrics(one) if enough else None))
    return found


def _report(of: Monitored, found: Metrics | None, held: tuple[Target, ...] = ()) -> SubgroupReport:
    answered, malignant = int(of.answered.sum()), int(of.malignant.sum())
    who = (of.version, of.made_for, of.subgroup, of.first)
    counts = (answered, int(of.known.sum()), malignant if found else None)
    return SubgroupReport(*who, *counts, of.reported / answered, found, held)


def targets(manifest: BundleManifest | None, subgroup: str) -> tuple[Target, ...]:
    """The sensitivity and the coverage for a subgroup that the test of a version was sure of."""
    from scipy.special import betaincinv  # see `intervals.exact_low`

    if manifest is None:
        return ()
    found = []
    is_global = manifest.subgroup.is_global
    own = figures_by_subgroup(manifest).get(subgroup, {}) if is_global else manifest.metrics
    ends = told(own, AT_WORKING_POINT).interval
    if ends is not None and 0 < ends[0] < 1:
        found.append(Target("sensitivity", ends[0], "the lower end of the interval on test pictures"))
    conformal = manifest.conformal
    if conformal.guarantee == "subgroup" and manifest.subgroup.name == subgroup:
        # Given its calibration on n lesions a split conformal set covers Beta(k, n + 1 − k) (Vovk 2012), so
        # that half of all calibrations cover less than they aim at.
        n, k = conformal.n, ceil((conformal.n + 1) * (1 - conformal.alpha))
        if 0 < k <= n:
            least = float(betaincinv(k, n + 1 - k, (1 - LEVEL) / 2))
            found.append(Target("coverage", least, "what sets of as many lesions contain but for 1 in 40"))
    return tuple(found)


def _held(target: Target, of: Monitored, alpha: float, closed: Mapping[Key, date]) -> Target:
    last = closed.get((of.version, of.subgroup, target.of))
    since = 0 if last is None else max(0, (last - of.first).days + 1)
    ends, capital = evidence(of, target.of, target.least, since)
    about = of.malignant if target.of == "sensitivity" else of.known
    missed = np.flatnonzero(capital >= -np.log(alpha))
    return replace(
        target,
        outcomes=int((about & (of.arrived >= since)).sum()),
        evidence=float(np.exp(min(capital[-1], 690))) if len(ends) else 1.0,  # no database holds an infinity
        limit=1 / alpha,
        broken_on=of.first + timedelta(days=int(ends[missed[0]])) if missed.size else None,
        windows=len(ends),
    )
