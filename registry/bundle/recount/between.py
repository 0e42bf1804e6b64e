"""Fairness: what it is of the accuracies of the subgroups, and of their intervals."""

from collections.abc import Mapping, Sequence

import numpy as np

from registry.bundle.manifest.subgroup import UNDECLARED
from registry.bundle.metrics import fairness
from registry.bundle.metrics.fairness_limits import limits_between
from registry.bundle.metrics.limits import Limits
from registry.bundle.recount.problem import LOOSE, Findings, Row, ends, said

OF = "the accuracies of its subgroups"


def check_fairness(row: Row, parts: Mapping[str, Row], order: Sequence[str], findings: Findings) -> None:
    """Compares the fairness figures with the subgroups.

    Args:
        row: the figures.
        parts: the rows of the subgroups.
        order: the subgroups in the order in which intervals were drawn; empty where it is not known.
        findings: where problems are noted.
    """
    compared = {name: each for name, each in parts.items() if name != UNDECLARED}
    told = [(each.number("accuracy"), each.whole("n")) for each in compared.values()]
    if any(accuracy is None or not n for accuracy, n in told):
        return
    if len(told) < 2:
        for name in ("variance", "gap", "worst", "spread", "spread_standardised"):
            findings.same(row.at(name), row.number(name), None, "fewer than two subgroups")
        return
    accuracies = np.array([accuracy for accuracy, _ in told], dtype=np.float64)
    n = np.array([count for _, count in told], dtype=np.int64)
    figures = {
        "variance": fairness.deviation_of(accuracies) ** 2,
        "gap": fairness.gap_of(accuracies, n),
        "worst": fairness.worst_of(accuracies, n),
        "spread": fairness.spread_of(accuracies),
    }
    for name, gives in figures.items():
        findings.same(row.at(name), row.number(name), float(gives), OF)
    if sorted(order) == sorted(compared):
        _check_intervals(row, [compared[name] for name in order], findings)


def _check_intervals(row: Row, compared: Sequence[Row], findings: Findings) -> None:
    limits = [each.interval("accuracy") for each in compared]
    if None in limits:
        return
    values, n = ([each.figures[name] for each in compared] for name in ("accuracy", "n"))
    low, high = (np.array([one[side] for one in limits if one]) for side in (0, 1))
    for name, found in limits_between(Limits(np.array(values), low, high), np.array(n)).items():
        mine, theirs = row.interval(name), found.ends()
        if mine and theirs and max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) > LOOSE:
            findings.refuse(
                row.at(f"intervals.{name}"), mine, f"the intervals of its subgroups give {said(theirs)}"
            )


def check_standardised(row: Row, differences: object, parts: Mapping[str, Row], findings: Findings) -> None:
    """Compares the standardised spread of two subgroups with their difference."""
    compared = [name for name in parts if name != UNDECLARED]
    spread = row.number("spread_standardised")
    if len(compared) != 2 or spread is None or not isinstance(differences, list):
        return
    for each in differences:
        of = Row("metrics.differences", each if isinstance(each, Mapping) else {})
        value = of.number("value")
        if of.figures.get("figure") == "accuracy_standardised" and value is not None:
            findings.same(row.at("spread_standardised"), spread, abs(value), "the differences")
            interval = ends(of.figures.get("interval"))
            if interval and abs(value) > LOOSE and interval[1] - interval[0] < LOOSE:
                findings.refuse("metrics.differences", interval, "an interval of no width is of no pictures")
