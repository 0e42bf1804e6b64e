"""Figures of the calibrated, routed system on the test split, for every subgroup."""

from collections.abc import Mapping, Sequence

from personalization.report.data import CalibratedModel
from personalization.report.measures import ALL, Estimate, present
from personalization.report.numerals import number, whole
from personalization.report.served import answered, coverage, reported, routes, set_size, wrong
from personalization.report.table import Cell, Row, Table, cell
from registry.bundle.counts.counting import Block

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
        share, size = coverage(group), set_size(group)
        n = sum(int(block.point.n) for block in group.values())
        rows.append(
            Row(
                name,
                (
                    Cell(whole(n)),
                    Cell("–" if name == ALL else answered_by[name].subgroup),
                    cell(share, "percent"),
                    _size(size),
                    *(cell(figure(group), "percent") for figure in (answered, reported, wrong)),
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
