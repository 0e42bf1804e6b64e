"""Years of answers and outcomes, drawn: who is followed up, and how outcomes arrive."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from registry.outcomes.metrics import Monitored

DAYS = 365
SPECIFICITY = 0.7
Days = NDArray[np.int64]
Arrival = Callable[[np.random.Generator, Days], Days]


def in_files(days: int) -> Arrival:
    """Outcomes arrive with the file of so many days."""
    return lambda random, ready: -(-ready // days) * days


def in_late_lots(random: np.random.Generator, ready: Days) -> Days:
    """Lots of four weeks, in which an outcome may be up to three lots late."""
    return (-(-ready // 28) + random.integers(0, 4, len(ready))) * 28


ARRIVALS: dict[str, Arrival] = {
    "daily": in_files(1),
    "in a file a week": in_files(7),
    "in a file a quarter": in_files(91),
    "in late lots, with corrections": in_late_lots,
}


@dataclass(frozen=True)
class FollowUp:
    """Who is followed up.

    Attributes:
        shares: of the lesions below the working point, and above.
        of_missed: how many times as often a missed lesion is followed up as others below.
        lot_from: the day from which on a fifth of all are drawn by lot besides.
        halved_from: the day from which on half as many lesions are malignant.
    """

    shares: tuple[float, float]
    of_missed: float = 1.0
    lot_from: int = DAYS
    halved_from: int = DAYS


TWICE = FollowUp((0.0744, 0.149))  # a tenth of all, twice as often where suspicious


@dataclass(frozen=True)
class Year:
    """A drawn year, with all outcomes as they are at its end, and as they were first reported.

    Attributes:
        monitored: the year at its end.
        first_said: whether each lesion was first reported as malignant.
        corrected_on: the day of the correction; of those that needed none, that of the outcome.
    """

    monitored: Monitored
    first_said: NDArray[np.bool_]
    corrected_on: Days

    def on(self, day: int) -> Monitored:
        """What was known at the end of a day."""
        of, here = self.monitored, self.monitored.arrived <= day
        said = np.where(self.corrected_on <= day, of.malignant, self.first_said)
        each = (of.arrived, of.stratum, of.known, said, of.in_set)
        who = (of.version, of.made_for, of.subgroup, of.first)
        counts = (of.answered[: day + 1], of.reported, of.has_working_point)
        return Monitored(*who, *counts, *(one[here] for one in each))


def draw_year(
    random: np.random.Generator,
    arrival: str = "daily",
    *,
    a_day: float = 40,
    sensitivity: float | NDArray[np.float64] = 0.9,
    malignant_share: float = 1 / 12,
    followed: FollowUp = TWICE,
) -> Year:
    """Draw a year of a version of this sensitivity, perhaps of each day.

    A suspicious lesion has its outcome after 20 days and any other after 88, on average. In late lots one in
    twenty malignant outcomes is first reported as benign and one in 500 benign ones as malignant; they are
    corrected with the next lot.
    """
    day = np.repeat(np.arange(DAYS), random.poisson(a_day, DAYS))
    share = np.where(day < followed.halved_from, malignant_share, malignant_share / 2)
    malignant = random.random(len(day)) < share
    found = np.broadcast_to(sensitivity, DAYS)[day]
    above = random.random(len(day)) < np.where(malignant, found, 1 - SPECIFICITY)
    share = np.array(followed.shares)[above.astype(np.int64)]
    share = np.where(malignant & ~above, np.minimum(1, followed.of_missed * share), share)
    share = np.where(day >= followed.lot_from, np.maximum(share, 0.2), share)
    waited = np.where(above, random.gamma(4, 5, len(day)), random.gamma(4, 22, len(day)))
    arrived = ARRIVALS[arrival](random, day + np.ceil(waited).astype(np.int64))
    kept = np.flatnonzero((random.random(len(day)) < share) & (arrived < DAYS))
    kept = kept[np.argsort(arrived[kept], kind="stable")]
    stratum = 2 * above + (random.random(len(day)) < 0.7)
    answered = np.zeros((DAYS, 4), dtype=np.int64)
    np.add.at(answered, (day, stratum), 1)
    ill, known_on = malignant[kept], arrived[kept]
    corrects = arrival == "in late lots, with corrections"
    wrong = corrects & (random.random(len(kept)) < np.where(ill, 1 / 20, 1 / 500))
    everything = np.ones(len(kept), dtype=np.bool_)
    of = Monitored(
        *(1, "global", "dark", date(2025, 1, 1), answered, int((stratum % 2).sum()), True),
        *(known_on, stratum[kept], everything, ill, everything),
    )
    return Year(of, ill ^ wrong, known_on + 28 * wrong)
