"""When a release that turned bad for dark skin is told of in the field, and how often a good one is accused.

A simulated year of 200 answers a day, a fifth of them for dark skin, one in twelve lesions malignant. Of a
tenth an outcome comes back, a lesion that was called suspicious being followed up more often than others, its
biopsy after weeks and everything else after months; daily, or in files; in some rows following up or case mix
change at mid-year. A release promises a sensitivity for either subgroup;
one keeps it, another falls by 0.10 on dark skin alone in the fourth month. Every promise is looked at
every day, corrected for who is followed up and, to compare, as seen. Criteria: over the year a release
that keeps its promise is accused in at most 5 % of the years, wherever following up depends on the answer
alone; and the corrected interval of a year's sensitivity holds the true one in 95 % of them, less what 1,000
draws may be off by.

    python benchmarks/field_year.py --years 1000
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from tables import print_conditions, print_table, write_table

from registry.bundle.metrics.intervals import Limits
from registry.outcomes.monitoring import (
    FieldFigures,
    KnownOutcomes,
    Strata,
    Windows,
    field_figures,
    watch,
    windows,
)

DAYS = 365
A_DAY = 200
OF: Mapping[str, float] = {"light": 0.8, "dark": 0.2}
MALIGNANT = 1 / 12
SPECIFICITY = 0.7
CHANGE = 90  # the first day of the fourth month
LOSS = 0.10
ALPHA = 0.05
FLAGGED = np.array([False, True])
BY_LOT = 0.2
TABLE = Path("docs/results/tables/field-year.csv")


@dataclass(frozen=True)
class FollowUp:
    """Who is followed up.

    Attributes:
        missed_called: the shares of those that were not called suspicious, and were.
        of_missed: how many times as often a malignant lesion is followed up that was not called so.
        file_days: how many days of outcomes come in together, as a file; in the order of the answers.
        lot_from: the day from which on so many are followed up by lot besides.
        halved_from: the day from which on half as many lesions are malignant.
    """

    missed_called: tuple[float, float]
    of_missed: float = 1.0
    file_days: int = 1
    lot_from: int = DAYS
    halved_from: int = DAYS


# Each of about a tenth of all: 0.345 of the lesions are called suspicious.
FOLLOWED: Mapping[str, FollowUp] = {
    "six times as often where suspicious": FollowUp((0.0366, 0.22)),
    "twice as often where suspicious": FollowUp((0.0744, 0.149)),
    "a tenth, drawn by lot": FollowUp((0.1, 0.1)),
    "a quarter, drawn by lot": FollowUp((0.25, 0.25)),
    "twice, in a file a quarter": FollowUp((0.0744, 0.149), file_days=91),
    "six times, and a fifth by lot from mid-year": FollowUp((0.0366, 0.22), lot_from=182),
    "twice, and half as many malignant from mid-year": FollowUp((0.0744, 0.149), halved_from=182),
    "six times, and missed ones thrice as often": FollowUp((0.0366, 0.22), 3.0),
}


@dataclass(frozen=True)
class Year:
    """A subgroup's year.

    Attributes:
        answered: by day and side of the working point, `(days, 2)`.
        figures: at the end of it.
        known: malignant lesions whose outcome is known.
        windows: of its outcomes.
    """

    answered: NDArray[np.int64]
    figures: FieldFigures
    known: KnownOutcomes
    windows: Windows


def year(
    random: np.random.Generator, a_day: float, sensitivity: NDArray[np.float64], followed: FollowUp
) -> Year:
    """Draws a year; `sensitivity` is of each day, `(days,)`."""
    day = np.repeat(np.arange(DAYS), random.poisson(a_day, DAYS))
    share = np.where(day < followed.halved_from, MALIGNANT, MALIGNANT / 2)
    malignant = random.random(len(day)) < share
    called = random.random(len(day)) < np.where(malignant, sensitivity[day], 1 - SPECIFICITY)
    share = np.array(followed.missed_called)[called.astype(np.int64)]
    share = np.where(malignant & ~called, np.minimum(1, followed.of_missed * share), share)
    share = np.where(day >= followed.lot_from, np.maximum(share, BY_LOT), share)
    waited = np.where(called, random.gamma(4, 5, len(day)), random.gamma(4, 22, len(day)))
    known_on = -(-(day + np.ceil(waited).astype(np.int64)) // followed.file_days) * followed.file_days
    confirmed = (random.random(len(day)) < share) & (known_on < DAYS)
    side = called.astype(np.int64)
    answered = np.zeros((DAYS, 2), dtype=np.int64)
    np.add.at(answered, (day, side), 1)
    within = windows(answered, known_on[confirmed], side[confirmed], FLAGGED)
    chosen = confirmed & malignant
    known = KnownOutcomes(known_on[chosen], side[chosen], called[chosen])
    old = day < DAYS - 120  # the youngest answers have no outcome yet, of one side less than of the other
    figures = field_figures(Strata.count(side[old], FLAGGED, confirmed[old], malignant[old]))
    return Year(answered, figures, known, within)


def unweighted(of: Windows) -> Windows:
    """The same windows, in which everybody counts alike."""
    return replace(of, weights=np.ones_like(of.weights))


def alarms(years: list[dict[str, Year]], promised: float, *, corrected: bool) -> list[int]:
    """The days of the first alarm, of the years in which there is one."""
    days = []
    for one in years:
        found = [
            watch(of.known, of.windows if corrected else unweighted(of.windows), promised, ALPHA / 2).alarm_on
            for of in one.values()
        ]
        days += (
            [min(day for day in found if day is not None)] if any(day is not None for day in found) else []
        )
    return days


def drawn(years: int, followed: FollowUp, sensitivity: float, loss: float) -> list[dict[str, Year]]:
    """So many years of both subgroups."""
    steady = np.full(DAYS, sensitivity)
    falls = np.where(np.arange(DAYS) < CHANGE, sensitivity, sensitivity - loss)
    seeds = np.random.SeedSequence([years, round(1000 * sensitivity), round(1000 * loss)]).spawn(years)
    return [
        {
            name: year(random, A_DAY * share, falls if name == "dark" else steady, followed)
            for name, share in OF.items()
        }
        for random in map(np.random.default_rng, seeds)
    ]


def told(days: list[int], years: int) -> list[str]:
    """In how many years there is an alarm, and half of them by which day after the change."""
    return [f"{len(days) / years:.1%}", f"{np.median(days) - CHANGE:.0f}" if days else "-"]


def held(limits: list[Limits], true: float) -> str:
    """In how many years the interval holds the true figure."""
    return f"{np.mean([of.low <= true <= of.high for of in limits]):.1%}"


def main(
    years: Annotated[int, typer.Option(help="Years of each row.")] = 1000,
    write: Annotated[bool, typer.Option(help="Write the table of the results.")] = False,
) -> None:
    """Simulate, and print when a promise is told to be broken."""
    print_conditions("A year in the field", {"years": years, "answers a day": A_DAY, "alpha": ALPHA})
    header = ["followed up", "sensitivity", "promised", "kept: accused", "kept: accused, as seen"]
    header += ["broken: told", "days after", "broken: told, as seen", "days after, as seen"]
    header += ["seen dark", "corrected dark", "corrected interval holds", "seen interval holds"]
    rows = []
    for name, followed in FOLLOWED.items():
        for sensitivity, promised in ((0.9, 0.9), (0.9, 0.85)):
            good = drawn(years, followed, sensitivity, 0.0)
            bad = drawn(years, followed, sensitivity, LOSS)
            dark = [one["dark"].figures for one in good]
            rows.append(
                [
                    name,
                    sensitivity,
                    promised,
                    *(told(alarms(good, promised, corrected=by), years)[0] for by in (True, False)),
                    *told(alarms(bad, promised, corrected=True), years),
                    *told(alarms(bad, promised, corrected=False), years),
                    f"{np.nanmean([float(of.seen_sensitivity.value) for of in dark]):.3f}",
                    f"{np.nanmean([float(of.sensitivity.value) for of in dark]):.3f}",
                    held([of.sensitivity for of in dark], sensitivity),
                    held([of.seen_sensitivity for of in dark], sensitivity),
                ]
            )
    print_table(header, rows)
    if write:
        write_table(TABLE, header, rows)


if __name__ == "__main__":
    start(main, "--years 3")
