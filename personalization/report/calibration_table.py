"""What calibration fixed for every model, and what it came to on the test split."""

from collections.abc import Mapping, Sequence

import numpy as np

from personalization.conformal import examples_needed
from personalization.report.data import CalibratedModel
from personalization.report.measures import Estimate, estimate
from personalization.report.numerals import ABSENT, number, whole
from personalization.report.tables import Cell, Row, Table, cell
from registry.bundle.counts import SCORE_BINS, Block, Counts
from registry.bundle.metrics.ratio import Figure, ratio
from registry.bundle.metrics.sets import coverage_at, mean_set_size_at

_COLUMNS = (
    "model",
    "calibration pictures",
    "temperature",
    "in the set from",
    "coverage promised",
    "coverage on test",
    "mean set size",
    "answered from confidence",
    "referred on test",
    "wrong among answered",
)


def calibration_table(models: Sequence[CalibratedModel], blocks: Mapping[str, Block]) -> Table:
    """One row per calibrated model.

    Args:
        models: what calibration fixed.
        blocks: test counts of the released models per subgroup; a model whose name is not among them
            (the global one) has no figures on the test split.
    """
    return Table(
        "Calibration and what it came to on the test split",
        _COLUMNS,
        tuple(_row(model, blocks.get(model.subgroup)) for model in models),
    )


def _row(model: CalibratedModel, block: Block | None) -> Row:
    conformal, abstention = model.conformal, model.abstention
    threshold = conformal.threshold_bin
    gate = abstention.threshold_bin

    def covered(counts: Counts) -> Figure:
        return coverage_at(counts, threshold)

    def set_size(counts: Counts) -> Figure:
        return mean_set_size_at(counts, threshold)

    def referred(counts: Counts) -> Figure:
        return 1 - ratio(counts.confidence[..., gate:].sum(axis=(-2, -1)), counts.n)

    def wrong(counts: Counts) -> Figure:
        answers = counts.confidence[..., gate:].sum(axis=-1)
        return ratio(answers[..., 0], np.asarray(answers.sum(axis=-1)))

    on_test = [Estimate(None) if block is None else estimate(f, block) for f in (covered, referred, wrong)]
    size = Estimate(None) if block is None else estimate(set_size, block)
    cells = (
        Cell(whole(conformal.n)),
        _temperature(model),
        Cell(number(threshold / SCORE_BINS, "percent") if conformal.guaranteed else "every class"),
        _promise(model),
        cell(on_test[0], "percent"),
        Cell(
            f"{size.value:.2f}" if size.value is not None else ABSENT,
            "" if size.low is None or size.high is None else f"{size.low:.2f} to {size.high:.2f}",
        ),
        Cell("always refers")
        if abstention.refers_always
        else Cell(
            number(gate / SCORE_BINS, "percent"), f"target risk {number(abstention.target_risk, 'percent')}"
        ),
        cell(on_test[1], "percent"),
        cell(on_test[2], "percent"),
    )
    return Row(model.subgroup, cells)


def _temperature(model: CalibratedModel) -> Cell:
    found = model.temperature
    note = "global: too few pictures" if found.fitted is None else f"own fit {found.fitted:.2f}"
    return Cell(f"{found.value:.2f}", note)


def _promise(model: CalibratedModel) -> Cell:
    conformal = model.conformal
    asked = number(conformal.coverage, "percent")
    if conformal.guaranteed:
        return Cell(asked, f"expected {number(conformal.expected_coverage, 'percent')}")
    return Cell("none", f"{asked} needs {examples_needed(conformal.coverage)} pictures", faint=True)
