"""Test figures of cases: by what is given of them, and with a kind of pictures or a fact left out in turn."""

from collections.abc import Iterator, Mapping
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import ALL, Cell, Estimate, Row, Table, cell, whole

FIGURES = {
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
}
GIVEN = ("given", "cases", *FIGURES.values(), "coverage", "mean set size", "concluded")
CONTEXT_NAMES = {"some context": "some facts", "context": "all facts"}
EVERYTHING = "all that is known"


def pattern_tables(run: ReportData) -> tuple[Table, ...]:
    """One table over all cases and one for each subgroup; none where the job is about single pictures."""
    patterns = reported(run, "patterns")
    if not patterns:
        return ()
    places = dict.fromkeys(place for figures in patterns.values() for place in figures["by_subgroup"])
    return tuple(
        Table(
            _caption("By what is given", place),
            GIVEN,
            tuple(
                Row(_spoken(name), (*_cells(figures), *_decided(figures)))
                for name, of in patterns.items()
                if (figures := _at(of, place))
            ),
        )
        for place in (ALL, *places)
    )


def left_out_tables(run: ReportData) -> tuple[Table, ...]:
    """One table over all cases and one for each subgroup; none where the job is about single pictures."""
    found = reported(run, "left_out")
    return tuple(
        Table(
            _caption("With parts left out", place),
            ("shown", "cases", *FIGURES.values()),
            (
                Row(EVERYTHING, _cells(_at(run.last_test, place)), is_total=True),
                *(Row(f"without {part}", _cells(_at(figures, place))) for part, figures in found.items()),
            ),
        )
        for place in ((ALL, *run.last_test.get("by_subgroup", {})) if found else ())
    )


def harms(run: ReportData) -> Iterator[str]:
    """A sentence for each figure of a subgroup that is better without a part, its intervals apart."""
    for part, figures in reported(run, "left_out").items():
        for place in (ALL, *run.last_test.get("by_subgroup", {})):
            here, there = _at(run.last_test, place), _at(figures, place)
            for key, title in FIGURES.items():
                with_part, without = Estimate.in_summary(here, key), Estimate.in_summary(there, key)
                if with_part.high is not None and without.low is not None and without.low > with_part.high:
                    yield (
                        f"{part} harms {'all' if place == ALL else place}: {title} is {without.value:.3f} "
                        f"without and {with_part.value:.3f} with it."
                    )


def reported(run: ReportData, what: str) -> Mapping[str, Any]:
    """What the last stage reported that has such facts; empty where none has."""
    return next((of.facts[what] for of in reversed(run.facts) if of.facts.get(what)), {})


def _at(figures: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The figures of all cases or of a subgroup; empty where it has none."""
    found: Mapping[str, Any] = figures if place == ALL else figures["by_subgroup"].get(place, {})
    return found


def _caption(title: str, place: str) -> str:
    return f"{title if place == ALL else f'{title}, {place}'}, with 95 % intervals"


def _spoken(pattern: str) -> str:
    """A pattern's name in words: `close-up, dermoscopic; all facts`."""
    *kinds, last = pattern.split("+")
    if last not in CONTEXT_NAMES:
        return ", ".join((*kinds, last))
    return f"{', '.join(kinds)}; {CONTEXT_NAMES[last]}"


def _cells(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    shares = (cell(Estimate.in_summary(figures, key)) for key in FIGURES)
    return (Cell(whole(int(figures.get("n", 0)))), *shares)


def _decided(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    size = figures.get("set_size")
    covered, concluded = (Estimate.in_summary(figures, key) for key in ("coverage", "reported"))
    return (
        cell(covered, "percent"),
        Cell("–" if size is None else f"{size:.2f}"),
        cell(concluded, "percent"),
    )
