"""Figures of the served system: coverage, set sizes and answers, by the model that answers a subgroup.

A figure over several subgroups adds what the thresholds of each one's own model do there, as the service
would: a subgroup without a model of its own is answered by the global one. Clients count that exactly.

Figures of the calibrated, routed system on the test split, for every subgroup.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from personalization.report.data import CalibratedModel
from personalization.report.measures import ALL, Cell, Estimate, Row, Table, cell, number, present, whole
from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Decisions
from registry.bundle.metrics import selective
from training.messages.message import GLOBAL

Blocks = Mapping[str, Block]
"""The test counts of some subgroups."""


def routes(models: Sequence[CalibratedModel], subgroups: Iterable[str]) -> dict[str, CalibratedModel]:
    """The model of each subgroup; a subgroup that no calibrated model answers is left out."""
    by_name = {model.subgroup: model for model in models}
    found = {name: by_name.get(name, by_name.get(GLOBAL)) for name in subgroups}
    return {name: model for name, model in found.items() if model is not None}


def decisions(blocks: Blocks) -> Decisions | None:
    """What the thresholds do to the pictures of all subgroups; None where it was not counted."""
    found = [block.decisions for block in blocks.values() if block.decisions is not None]
    return reduce(add, found) if found and len(found) == len(blocks) else None


def decided(blocks: Blocks) -> Mapping[str, Any]:
    """The figures of these decisions, by their names in the summary; none where it was not counted."""
    found = decisions(blocks)
    return {} if found is None else selective.decided(found)


_COLUMNS = (
    "subgroup",
    "pictures",
    "answered by the model",
    "coverage",
    "mean set size",
    "concluded, urgent or ruled out",
    "concluded",
    "wrong among conclusions",
)


def served_table(models: Sequence[CalibratedModel], blocks: Mapping[str, Block]) -> Table:
    """One row per subgroup and one for all, routed as the service routes.

    Args:
        models: what calibration fixed.
        blocks: test counts of the released models per subgroup.
    """
    shown = present(blocks)
    answered_by = routes(models, shown)
    groups = {name: {name: block} for name, block in shown.items() if name in answered_by}
    everybody = {name: shown[name] for name in groups}
    rows = []
    for name, group in {**groups, ALL: everybody}.items():
        figures = decided(group)
        covered, size, *others = (
            Estimate.in_summary(figures, key)
            for key in ("coverage", "set_size", "answered", "reported", "reported_risk")
        )
        n = sum(int(block.point.n) for block in group.values())
        rows.append(
            Row(
                name,
                (
                    Cell(whole(n)),
                    Cell("–" if name == ALL else answered_by[name].subgroup),
                    cell(covered, "percent"),
                    _size(size),
                    *(cell(share, "percent") for share in others),
                ),
                is_total=name == ALL,
            )
        )
    return Table("What it comes to on the test split, with 95 % intervals", _COLUMNS, tuple(rows))


def _size(found: Estimate) -> Cell:
    if found.value is None:
        return Cell(number(None))
    ends = "" if found.low is None or found.high is None else f"{found.low:.2f} to {found.high:.2f}"
    return Cell(f"{found.value:.2f}", ends)
