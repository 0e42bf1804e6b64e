"""Figures that no pictures have: shares beyond 0 and 1, parts of a picture, values outside intervals."""

from collections.abc import Iterator, Mapping
from typing import Any

from registry.bundle.metrics.patient import COUNTS
from registry.bundle.metrics.summary import FAIRNESS, FIGURES, MALIGNANCY
from registry.bundle.recount.problem import LOOSE, Findings, Row, ends, number, said, whole

OF_ALL = ("accuracy", "weighted_recall", "coverage", "reported")
OF_MALIGNANT = ("malignant_sensitivity", "sensitivity_at_threshold")
OF_OTHERS = ("malignant_specificity", "specificity_at_threshold")
BY_CLASS = ("recall", "precision", "f1", "specificity", "auroc", "auprc")
SHARES = frozenset(
    [*FIGURES, *MALIGNANCY, *FAIRNESS, *BY_CLASS, *OF_ALL, *OF_MALIGNANT, *OF_OTHERS, "reported_risk"]
)
"""Figures from 0 to 1."""

COUNTED = frozenset([*COUNTS])
_SIZE = "set_size"
_DISTANCES = frozenset([*FAIRNESS, "ece", "mce"])
"""Figures whose upper limits are of drawn noise, which few pictures may lead beyond 1."""

_AREAS, _GUESSING = ("auroc", "malignancy_auroc"), 0.5


def check_possible(row: Row, classes: int, findings: Findings) -> None:
    """Checks one row of figures by itself.

    Args:
        row: of all pictures, of a subgroup, of a class, or of fairness.
        classes: how many labels there are.
        findings: where problems are noted.
    """
    for name, value in row.figures.items():
        if name in COUNTED and value is not None and whole(value) is None:
            findings.refuse(row.at(name), value, "a number of pictures is whole, and 0 or more")
        elif name in SHARES or name == _SIZE:
            _in_range(row, name, value, float(classes) if name == _SIZE else 1.0, findings)
    _sides(row, findings)
    for name, n in denominators(row):
        _whole_times(row, name, n, findings)
    _intervals(row, findings)


def denominators(row: Row) -> Iterator[tuple[str, int]]:
    """The shares of a row that are so many of so many pictures, and of how many."""
    n, malignant, other = (row.whole(name) for name in COUNTS)
    reported = row.times("reported", n)
    of: list[tuple[tuple[str, ...], int | None]] = [
        ((*OF_ALL, _SIZE), n),
        (OF_MALIGNANT, malignant),
        (OF_OTHERS, other),
        (("reported_risk",), reported),
    ]
    for names, count in of:
        for name in names:
            if count is not None and name in row.figures:
                yield name, count


def _in_range(row: Row, name: str, value: object, most: float, findings: Findings) -> None:
    if value is None:
        return
    known = number(value)
    if known is None:
        findings.refuse(row.at(name), value, "a figure is a number, or null where it is undefined")
    elif not -LOOSE <= known <= most + LOOSE:
        findings.refuse(row.at(name), known, f"it is from 0 to {said(most)}")


def _sides(row: Row, findings: Findings) -> None:
    n, malignant, other = (row.whole(name) for name in COUNTS)
    if n is None or malignant is None:
        return
    if malignant > n:
        findings.refuse(row.at("n_malignant"), malignant, f"there are {n} pictures in all")
    elif other is not None and malignant + other != n:
        findings.refuse(
            row.at("n"), n, f"{malignant} malignant pictures and {other} others give {malignant + other}"
        )


def _whole_times(row: Row, name: str, n: int, findings: Findings) -> None:
    share = row.number(name)
    if share is None:
        return
    if not n:
        findings.refuse(row.at(name), share, "it is of no picture, and then undefined (null)")
    elif abs(share * n - round(share * n)) > LOOSE * max(n, 1):
        findings.refuse(
            row.at(name), share, f"it is a share of {n} pictures, and {share * n:.4g} of them is not whole"
        )


def _intervals(row: Row, findings: Findings) -> None:
    intervals = row.figures.get("intervals")
    for name, told in intervals.items() if isinstance(intervals, Mapping) else ():
        if told is None:
            continue
        place = row.at(f"intervals.{name}")
        found, value = ends(told), row.number(name)
        if found is None or found[0] > found[1] + LOOSE:
            findings.refuse(place, told, "an interval is its lower and its upper end")
            continue
        if name in SHARES and not (found[0] >= -LOOSE and (found[1] <= 1 + LOOSE or name in _DISTANCES)):
            findings.refuse(place, found, "it is within 0 and 1")
        if value is not None and not found[0] - LOOSE <= value <= found[1] + LOOSE:
            findings.refuse(row.at(name), value, f"its own interval is {said(found)}")


def check_differences(found: Any, place: str, findings: Findings) -> None:
    """Checks the differences between pairs of subgroups by themselves."""
    for at, each in enumerate(found if isinstance(found, list) else ()):
        row = Row(f"{place}.{at}", each if isinstance(each, Mapping) else {})
        value, p, adjusted = (row.number(name) for name in ("value", "p", "p_adjusted"))
        interval = ends(row.figures.get("interval"))
        if value is not None and not -1 - LOOSE <= value <= 1 + LOOSE:
            findings.refuse(row.at("value"), value, "a difference of two shares is from -1 to 1")
        if value is not None and interval and not interval[0] - LOOSE <= value <= interval[1] + LOOSE:
            findings.refuse(row.at("value"), value, f"its own interval is {said(interval)}")
        if p is not None and not -LOOSE <= p <= 1 + LOOSE:
            findings.refuse(row.at("p"), p, "a p-value is from 0 to 1")
        if p is not None and adjusted is not None and not p - LOOSE <= adjusted <= 1 + LOOSE:
            findings.refuse(
                row.at("p_adjusted"), adjusted, f"corrected for several pairs it is at least {said(p)}"
            )
