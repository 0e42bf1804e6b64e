"""Subgroups and all pictures: each picture is of one row of `by_subgroup`, and the rows add up to all.

Of shares, how many pictures are so adds up. Where one row is of all pictures, it says what all pictures say.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from registry.bundle.counts.reference_histograms import ScoreHistograms
from registry.bundle.metrics.patient import COUNTS
from registry.bundle.recount.possible import denominators
from registry.bundle.recount.problem import ROUNDING, Findings, Row

OF = "its subgroups together"


def check_together(whole: Row, parts: Mapping[str, Row], findings: Findings) -> None:
    """Checks that subgroups add up to all pictures."""
    if not parts:
        return
    before = len(findings.problems)
    for name in COUNTS:
        counts = [row.whole(name) for row in parts.values()]
        told = whole.whole(name)
        if told is not None and None not in counts and sum(map(int, counts)) != told:  # type: ignore[arg-type]
            findings.refuse(whole.at(name), told, f"{OF} give {sum(map(int, counts))}")  # type: ignore[arg-type]
    if len(findings.problems) > before:
        return
    if any(row.whole("n") is None for row in parts.values()):
        return
    for name, n in denominators(whole):
        told = whole.times(name, n)
        found = [_times(row, name) for row in parts.values()]
        if told is None or None in found:
            continue
        given = sum(map(int, found))  # type: ignore[arg-type]
        if given != told:
            findings.refuse(
                whole.at(name), whole.number(name), f"that is {told} of {n}, and {OF} give {given}"
            )
    if len(parts) == 1:
        _same_pictures(whole, next(iter(parts.values())), findings)


def _times(row: Row, name: str) -> int | None:
    """How many pictures of a row are so; 0 where it has none of the kind."""
    of = dict(denominators(row)).get(name)
    if of == 0 and row.figures.get(name) is None:
        return 0
    return row.times(name, of)


def _same_pictures(whole: Row, part: Row, findings: Findings) -> None:
    """Checks the row that is of all pictures."""
    for name in part.figures:
        told, own = whole.number(name), part.number(name)
        if told is not None and own is not None and abs(told - own) > ROUNDING:
            findings.refuse(
                part.at(name), own, f"it is of all pictures, of which {whole.at(name)} says {told:.4g}"
            )
        mine, theirs = part.interval(name), whole.interval(name)
        if mine and theirs and max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) > ROUNDING:
            findings.refuse(
                part.at(f"intervals.{name}"), mine, f"it is of all pictures, whose interval is {theirs}"
            )


def check_histograms(
    whole: ScoreHistograms, parts: Mapping[str, ScoreHistograms], findings: Findings, *, is_all: bool
) -> None:
    """Checks that histograms of subgroups are a part of those of all pictures.

    Args:
        whole: of all pictures.
        parts: of subgroups, by where they stand.
        findings: where problems are noted.
        is_all: whether the subgroups are all pictures, so that they add up to them.
    """
    if not parts:
        return
    for name in ("confidence", "right", "malignancy", "scores"):
        told = getattr(whole, name)
        each = [getattr(one, name) for one in parts.values()]
        if told is None or None in each:
            continue
        for at, (of_all, *of_parts) in enumerate(_rows(name, told, each)):
            for place, (most, *given) in enumerate(zip(of_all, *of_parts, strict=True)):
                if sum(given) > most or (is_all and sum(given) != most):
                    row = f"{name}.{at}" if name == "scores" else name
                    findings.refuse(
                        f"reference.{row}.{place}", most, f"{OF} have {sum(given)} pictures in this bin"
                    )
                    return


def _rows(name: str, told: Any, each: Sequence[Any]) -> list[tuple[tuple[int, ...], ...]]:
    """Histograms of one kind, of all and of the parts together; of scores one for each class."""
    return [(told, *each)] if name != "scores" else list(zip(told, *each, strict=True))
