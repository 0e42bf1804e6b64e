"""Figures of the served system: coverage, set sizes and answers, by the model that answers a subgroup.

A figure over several subgroups adds what the thresholds of each one's own model do there, as the service
would: a subgroup without a model of its own is answered by the global one. Clients count that exactly.

Figures of the calibrated, routed system on the test split, for every subgroup.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add

from personalization.report.data import CalibratedModel
from personalization.report.measures import ALL, Cell, Estimate, Row, Table, cell, number, present, whole
from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Decisions
from registry.bundle.counts.lesions import LesionSums
from registry.bundle.metrics.selective import mean_interval, share_interval
from training.messages.message import GLOBAL

Blocks = Mapping[str, Block]
"""The test counts of some subgroups."""


def routes(models: Sequence[CalibratedModel], subgroups: Iterable[str]) -> dict[str, CalibratedModel]:
    """The model of each subgroup; a subgroup that no calibrated model answers is left out."""
    by_name = {model.subgroup: model for model in models}
    found = {name: by_name.get(name, by_name.get(GLOBAL)) for name in subgroups}
    return {name: model for name, model in found.items() if model is not None}


def coverage(blocks: Blocks) -> Estimate:
    """The fraction of pictures whose prediction set holds the right class."""
    return _figure(blocks, lambda decisions: decisions.covered)


def set_size(blocks: Blocks) -> Estimate:
    """The mean number of classes in a prediction set."""
    return _figure(blocks, lambda decisions: decisions.set_sizes, mean_interval)


def answered(blocks: Blocks) -> Estimate:
    """The fraction of pictures of which something is concluded, or that triage calls urgent or rules out."""
    return _figure(blocks, lambda decisions: decisions.answered)


def reported(blocks: Blocks) -> Estimate:
    """The fraction of pictures of which something is concluded."""
    return _figure(blocks, lambda decisions: decisions.reported)


def wrong(blocks: Blocks) -> Estimate:
    """The fraction of wrong ones among the conclusions; undefined where there are none."""
    return _figure(blocks, lambda decisions: decisions.wrong)


def suspicious(blocks: Blocks) -> tuple[Estimate, int]:
    """The fraction of malignant pictures at the working point or above, and of how many."""
    return _at_working_point(blocks, lambda decisions: decisions.suspicious)


def cleared(blocks: Blocks) -> tuple[Estimate, int]:
    """The fraction of other pictures below the working point, and of how many."""
    return _at_working_point(blocks, lambda decisions: decisions.cleared)


def _at_working_point(blocks: Blocks, share: Callable[[Decisions], LesionSums]) -> tuple[Estimate, int]:
    decisions = _decisions(blocks)
    if decisions is None:
        return Estimate(None), 0
    return Estimate.of_sums(share(decisions)), int(share(decisions).n[0])


def _decisions(blocks: Blocks) -> Decisions | None:
    """What the thresholds do to the pictures of all subgroups; None where it was not counted."""
    found = [block.decisions for block in blocks.values() if block.decisions is not None]
    return reduce(add, found) if found and len(found) == len(blocks) else None


def _figure(
    blocks: Blocks,
    sums: Callable[[Decisions], LesionSums],
    interval_of: Callable[[LesionSums], list[float] | None] = share_interval,
) -> Estimate:
    decisions = _decisions(blocks)
    return Estimate(None) if decisions is None else Estimate.of_sums(sums(decisions), interval_of)


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
