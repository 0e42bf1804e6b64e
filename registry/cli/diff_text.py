"""What `diff` prints for people: what changed first, then the figures that a release is judged by."""

import json
from typing import Any

from registry.bundle.metrics import patient
from registry.bundle.plain_text import shown_name
from registry.diff.figures import FigureChange, FigureValue
from registry.diff.versions import ComparedVersion, Difference
from registry.rendering.records import measured
from registry.rendering.table import Cell, Row, Table, columns, lines_of, text_of

SHOWN = (
    *patient.FIGURES,
    *patient.AT_WORKING_POINT,
    "accuracy",
    "auroc",
    "ece",
    "coverage",
    "spread",
    "worst",
)
_LONGEST = 60


def difference_text(found: Difference) -> str:
    """What changed between two versions."""
    head = f"{found.model}: {_name(found.before)} -> {_name(found.after)}"
    parents = [
        f"{_name(side)} began from version {side.parent_version}"
        for side in (found.before, found.after)
        if side.parent_version is not None
    ]
    parents += [
        f"{_name(side)} is {side.withdrawn}" for side in (found.before, found.after) if side.withdrawn
    ]
    if not found.changed:
        told = "everything but figures is the same"
    else:
        rows = [[one.what, _short(one.before), _short(one.after)] for one in found.changed]
        told = columns(("changed", f"version {found.before.version}", f"version {found.after.version}"), rows)
    return "\n\n".join([lines_of([head, *parents]), told, _figures(found)])


def _figures(found: Difference) -> str:
    rows = tuple(
        Row(
            one.subgroup or {"all": "all pictures", "fairness": "between subgroups"}[one.part],
            (
                Cell(one.figure.replace("_", " ")),
                _figure(one.before),
                _figure(one.after),
                Cell("unknown" if one.difference is None else f"{one.difference:+.3f}"),
                Cell(_overlap(one)),
            ),
        )
        for one in found.figures
        if one.figure in SHOWN
    )
    if not rows:
        return "neither version has test figures"
    header = ("of", "figure", f"version {found.before.version}", f"version {found.after.version}",
              "difference", "intervals")  # fmt: skip
    return text_of(Table("figures", "test figures of both versions", header, rows))


def _name(side: ComparedVersion) -> str:
    return f"version {side.version} ({shown_name(side.subgroup)})"


def _figure(one: FigureValue) -> Cell:
    cell = measured(one.value, one.interval)
    return cell if one.n is None else Cell(f"{cell}, n {one.n}")


def _overlap(one: FigureChange) -> str:
    return {True: "overlap", False: "apart", None: "unknown"}[one.overlap]


def _short(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith("sha256:"):
        return text[:19] + "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
