"""Reading the test figures of a bundle, which may be in any form that JSON allows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

FEW = 30
"""With fewer test pictures than this a figure is marked: it can be far off."""

TOO_FEW = "too few to tell"
UNKNOWN = "unknown"

INTERVALS = "intervals"
GROUPS = ("by_subgroup", "by_class", "fairness")  # objects of figures, or objects of such objects
PARTS = (*GROUPS, "differences", "intersections", "absent", INTERVALS)


def number_of(value: object) -> float | int | None:
    """The value if it is a finite number, else None; a truth value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def count_of(value: object) -> int | None:
    """The value if it can be a number of pictures, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def ends_of(found: object) -> tuple[float, float] | None:
    """The two ends of an interval, the lower first; None where it is none."""
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != 2:
        return None
    low, high = number_of(found[0]), number_of(found[1])
    return (low, high) if low is not None and high is not None and low <= high else None


def interval_of(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The 95 % interval of one figure of a row; None where it has none."""
    intervals = row.get(INTERVALS)
    return ends_of(intervals.get(name)) if isinstance(intervals, Mapping) else None


def rows_of(found: object) -> dict[str, Mapping[str, Any]]:
    """The rows of an object of rows; what is no row is left out."""
    if not isinstance(found, Mapping):
        return {}
    return {name: row for name, row in found.items() if isinstance(row, Mapping)}


def names_of(found: object) -> list[str]:
    """The texts of a list of texts; nothing where it is none."""
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [one for one in found if isinstance(one, str)]


def overall(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The figures over all test pictures."""
    return {name: value for name, value in metrics.items() if name not in PARTS}


def not_understood(metrics: Mapping[str, Any]) -> list[str]:
    """Where a bundle's figures are in a form that is not ours, as paths such as `by_subgroup.dark.ece`."""
    return list(_strange(metrics))


def _strange(metrics: Mapping[str, Any]) -> Iterator[str]:
    yield from _strange_row("", overall(metrics) | _only(metrics, INTERVALS))
    for name in ("by_subgroup", "by_class"):
        yield from _strange_rows(name, metrics.get(name))
    fairness = metrics.get("fairness")
    if isinstance(fairness, Mapping):
        yield from _strange_row("fairness.", fairness)
    elif fairness is not None:
        yield "fairness"
    absent = metrics.get("absent")
    if absent is not None and (not isinstance(absent, Sequence) or len(names_of(absent)) != len(absent)):
        yield "absent"
    differences = metrics.get("differences")
    if differences is not None and not _are_differences(differences):
        yield "differences"
    yield from _strange_intersections(metrics.get("intersections"))


def _strange_intersections(found: object) -> Iterator[str]:
    if isinstance(found, Mapping):
        for column, values in found.items():
            if not isinstance(values, Mapping):
                yield f"intersections.{column}"
                continue
            for value, rows in values.items():
                yield from _strange_rows(f"intersections.{column}.{value}", rows, may_be_null=True)
    elif found is not None:
        yield "intersections"


def _strange_rows(path: str, found: object, *, may_be_null: bool = False) -> Iterator[str]:
    if found is None:
        return
    if not isinstance(found, Mapping):
        yield path
        return
    for name, row in found.items():
        if isinstance(row, Mapping):
            yield from _strange_row(f"{path}.{name}.", row)
        elif row is not None or not may_be_null:
            yield f"{path}.{name}"


def _strange_row(prefix: str, row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if name == INTERVALS:
            if not isinstance(value, Mapping):
                yield f"{prefix}{name}"
                continue
            for figure, ends in value.items():
                if ends is not None and ends_of(ends) is None:
                    yield f"{prefix}{name}.{figure}"
        elif value is not None and number_of(value) is None:
            yield f"{prefix}{name}"


def _are_differences(found: object) -> bool:
    return isinstance(found, Sequence) and not isinstance(found, str) and all(map(is_difference, found))


def is_difference(found: object) -> bool:
    """Whether an entry names two subgroups and how far they are apart in which figure."""
    return (
        isinstance(found, Mapping)
        and len(names_of(found.get("between"))) == 2
        and isinstance(found.get("figure"), str)
    )


def _only(metrics: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: metrics[name]} if name in metrics else {}
