"""Test figures of cases by what is given of them: pictures of which kinds, and facts.

What each part of a case is worth: test figures with a kind of pictures, or a fact, left out in turn.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import ALL, Cell, Estimate, Row, Table, cell, whole

_COLUMNS = (
    "given",
    "cases",
    "AUROC of malignancy",
    "sensitivity",
    "specificity",
    "coverage",
    "mean set size",
    "concluded",
)
_FIGURES = ("malignancy_auroc", "malignant_sensitivity", "malignant_specificity")
CONTEXT_NAMES = {"some context": "some facts", "context": "all facts"}


def pattern_tables(run: ReportData) -> tuple[Table, ...]:
    """One table over all cases and one for each subgroup; none where the job is about single pictures."""
    patterns: Mapping[str, Any] = {}
    for stage in run.facts:
        patterns = stage.facts.get("patterns") or patterns
    if not patterns:
        return ()
    places = dict.fromkeys(place for figures in patterns.values() for place in figures["by_subgroup"])
    return tuple(
        _table(place, {name: found for name, of in patterns.items() if (found := _of(of, place))})
        for place in (ALL, *places)
    )


def _of(figures: Mapping[str, Any], place: str) -> Mapping[str, Any] | None:
    return figures if place == ALL else figures["by_subgroup"].get(place)


def _table(place: str, by_pattern: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = tuple(Row(_spoken(name), _cells(figures)) for name, figures in by_pattern.items())
    caption = "By what is given" if place == ALL else f"By what is given, {place}"
    return Table(f"{caption}, with 95 % intervals", _COLUMNS, rows)


def _spoken(pattern: str) -> str:
    """A pattern's name in words: `close-up, dermoscopic; all facts`."""
    *kinds, last = pattern.split("+")
    if last not in CONTEXT_NAMES:
        return ", ".join((*kinds, last))
    return f"{', '.join(kinds)}; {CONTEXT_NAMES[last]}"


def _cells(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    n = int(figures["n"])
    size = _estimate(figures, "set_size")
    return (
        Cell(whole(n)),
        *(cell(_estimate(figures, name)) for name in _FIGURES),
        cell(_estimate(figures, "coverage"), "percent"),
        Cell("–" if size.value is None else f"{size.value:.2f}"),
        cell(_estimate(figures, "reported"), "percent"),
    )


def _estimate(figures: Mapping[str, Any], name: str) -> Estimate:
    low, high = figures.get("intervals", {}).get(name) or (None, None)
    return Estimate(figures.get(name), low, high)


_LEFT_OUT_FIGURES = {
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
    return tuple(_left_out_table(place, run.last_test, found) for place in places)


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
            here, there = _left_out_of(test, place), _left_out_of(figures, place)
            for key, title in _LEFT_OUT_FIGURES.items():
                with_part, without = _left_out_estimate(here, key), _left_out_estimate(there, key)
                if with_part.high is not None and without.low is not None and without.low > with_part.high:
                    yield (
                        f"{part} harms {'all' if place == ALL else place}: {title} is {without.value:.3f} "
                        f"without and {with_part.value:.3f} with it."
                    )


def _left_out_table(place: str, test: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = [Row(EVERYTHING, _left_out_cells(_left_out_of(test, place)), is_total=True)]
    rows += [
        Row(f"without {part}", _left_out_cells(_left_out_of(figures, place)))
        for part, figures in found.items()
    ]
    caption = "With parts left out" if place == ALL else f"With parts left out, {place}"
    return Table(
        f"{caption}, with 95 % intervals", ("shown", "cases", *_LEFT_OUT_FIGURES.values()), tuple(rows)
    )


def _left_out_of(figures: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = figures if place == ALL else figures["by_subgroup"].get(place, {})
    return found


def _left_out_cells(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    n = int(figures.get("n", 0))
    return (Cell(whole(n)), *(cell(_left_out_estimate(figures, key)) for key in _LEFT_OUT_FIGURES))


def _left_out_estimate(figures: Mapping[str, Any], name: str) -> Estimate:
    low, high = figures.get("intervals", {}).get(name) or (None, None)
    return Estimate(figures.get(name), low, high)
