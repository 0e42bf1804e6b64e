"""Test figures of cases by what is given of them: pictures of which kinds, and facts."""

from collections.abc import Mapping
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import ALL, Estimate
from personalization.report.numerals import whole
from personalization.report.table import Cell, Row, Table, cell

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
