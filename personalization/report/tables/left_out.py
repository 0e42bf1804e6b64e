"""What each part of a case is worth: test figures with a kind of pictures, or a fact, left out in turn."""

from collections.abc import Iterator, Mapping
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import ALL, Estimate
from personalization.report.numerals import whole
from personalization.report.table import Cell, Row, Table, cell

_FIGURES = {
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
}
EVERYTHING = "all that is known"


def left_out_tables(run: ReportData) -> tuple[Table, ...]:
    """One table over all cases and one for each subgroup; none where the job is about single pictures."""
    found = left_out(run)
    if not found:
        return ()
    places = (ALL, *run.last_test.get("by_subgroup", {}))
    return tuple(_table(place, run.last_test, found) for place in places)


def left_out(run: ReportData) -> Mapping[str, Mapping[str, Any]]:
    """The figures without each part."""
    found: Mapping[str, Any] = {}
    for stage in run.facts:
        found = stage.facts.get("left_out") or found
    return found


def harms(run: ReportData) -> tuple[str, ...]:
    """A sentence for each figure of a subgroup that is better without a part, its intervals apart."""
    return tuple(_harms(run.last_test, left_out(run)))


def _harms(test: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for part, figures in found.items():
        for place in (ALL, *test.get("by_subgroup", {})):
            here, there = _of(test, place), _of(figures, place)
            for key, title in _FIGURES.items():
                with_part, without = _estimate(here, key), _estimate(there, key)
                if with_part.high is not None and without.low is not None and without.low > with_part.high:
                    yield (
                        f"{part} harms {'all' if place == ALL else place}: {title} is {without.value:.3f} "
                        f"without and {with_part.value:.3f} with it."
                    )


def _table(place: str, test: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = [Row(EVERYTHING, _cells(_of(test, place)), is_total=True)]
    rows += [Row(f"without {part}", _cells(_of(figures, place))) for part, figures in found.items()]
    caption = "With parts left out" if place == ALL else f"With parts left out, {place}"
    return Table(f"{caption}, with 95 % intervals", ("shown", "cases", *_FIGURES.values()), tuple(rows))


def _of(figures: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = figures if place == ALL else figures["by_subgroup"].get(place, {})
    return found


def _cells(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    n = int(figures.get("n", 0))
    return (Cell(whole(n)), *(cell(_estimate(figures, key)) for key in _FIGURES))


def _estimate(figures: Mapping[str, Any], name: str) -> Estimate:
    low, high = figures.get("intervals", {}).get(name) or (None, None)
    return Estimate(figures.get(name), low, high)
