"""The calibration of every model, and what its thresholds come to on the test split.

A figure over several subgroups adds what the thresholds of each one's own model do there, as the service
would: a subgroup without a model of its own is answered by the global one. Clients count that exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from personalization.calibration.at_thresholds import fewest_needed
from personalization.calibration.conformal import examples_needed
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import (
    ALL,
    Cell,
    Estimate,
    Row,
    Table,
    cell,
    estimate,
    interval,
    listed,
    number,
    present,
    texts,
    threshold,
    total,
    whole,
    with_all,
)
from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Decisions
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.labels import ClaimedTone, Label, malignant_classes
from registry.bundle.manifest import WorkingPoint
from registry.bundle.metrics import selective
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.patient import AT_WORKING_POINT
from registry.bundle.metrics.summary import MALIGNANCY, limits_of
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


_FIXED = (
    "model",
    "calibration pictures",
    "temperature",
    "in the set from",
    "coverage promised",
)

_AT_WORKING_POINT = (
    "subgroup",
    "suspicious from",
    "sensitivity promised",
    "malignant found suspicious",
    "others not suspicious",
    "malignant answered as such",
    "others answered as such",
)


def calibration_table(models: Sequence[CalibratedModel]) -> Table:
    """One row per calibrated model."""
    title = "What calibration fixed"
    if any(model.basis == "cross-fitted" for model in models):
        title += ", on training lesions, each scored by a model that was not trained on it (cross-fitted)"
    return Table(title, _FIXED, tuple(_row(model) for model in models))


def tones_table(tones: Sequence[ClaimedTone]) -> Table | None:
    """The patients of each skin tone of a subgroup; None where they were not counted."""
    if not tones:
        return None
    rows = tuple(
        Row(one.called, (Cell(one.subgroup), *(_patients(n) for n in (one.calibration, one.test))))
        for one in tones
    )
    return Table(
        "Patients by skin tone: where they are too few, the model for everybody answers",
        ("skin tone", "subgroup", "patients in calibration", "patients in test"),
        rows,
    )


def _patients(n: int | None) -> Cell:
    return Cell("too few" if n is None else whole(n))


def _row(model: CalibratedModel) -> Row:
    conformal = model.conformal
    from_probability = threshold(LOGIT_BINS.lower(conformal.threshold_bin))
    cells = (
        Cell(whole(conformal.n)),
        _temperature(model),
        Cell(from_probability if conformal.guaranteed else "every class"),
        _promise(model),
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
    return Cell("none", f"{asked} needs {examples_needed(conformal.coverage)} pictures")


def working_point_table(
    models: Sequence[CalibratedModel], blocks: Mapping[str, Block], labels: Sequence[Label]
) -> Table | None:
    """Sensitivity and specificity of every subgroup at the working point, and by the most probable class.

    Args:
        models: what calibration fixed.
        blocks: test counts of the released models per subgroup.
        labels: the classes.

    Returns:
        The table; None where no model has a working point.
    """
    shown = present(blocks)
    answered_by = routes(models, shown)
    if not any(model.working_point for model in answered_by.values()):
        return None
    groups = {name: {name: shown[name]} for name in answered_by}
    everybody = {name: shown[name] for name in answered_by}
    rows = []
    for name, group in {**groups, ALL: everybody}.items():
        of_model = texts("–", "–") if name == ALL else _point(answered_by[name])
        sample, found = sample_of(total(group)), decisions(group)
        counted = (0, 0) if found is None else (int(found.suspicious.n[0]), int(found.cleared.n[0]))
        shares = [Estimate.in_summary(decided(group), key) for key in AT_WORKING_POINT]
        by_class = (Estimate.of(limits_of(key, sample, malignant_classes(labels))) for key in MALIGNANCY)
        cells = (
            *of_model,
            *map(_of, shares, counted),
            *(cell(found, "percent") for found in by_class),
        )
        rows.append(Row(name, cells, is_total=name == ALL))
    caption = "The working point on the test split, beside the most probable class, with 95 % intervals"
    return Table(caption, _AT_WORKING_POINT, tuple(rows))


def _point(model: CalibratedModel) -> tuple[Cell, Cell]:
    point = model.working_point
    if point is None:
        return Cell("none"), Cell("none", "no malignant calibration lesion")
    lesions = f"{whole(point.n)} malignant lesions"
    target = "" if point.reached else f"; {number(point.target, 'percent')} needs {_needed(point)}"
    whose = "" if model.subgroup != GLOBAL else ", for everybody together"
    return (
        Cell(threshold(LOGIT_BINS.lower(point.threshold_bin)), model.subgroup),
        Cell(number(point.sensitivity_low, "percent"), f"{lesions}{whose}{target}"),
    )


def _needed(point: WorkingPoint) -> str:
    """How many malignant lesions show the target where none of them is missed."""
    return whole(fewest_needed(1 - point.target, point.level))


def _of(found: Estimate, n: int) -> Cell:
    """A share with its interval, and of how many pictures; in words where there are none."""
    if not n:
        return Cell(number(None), "no such test pictures")
    return Cell(number(found.value, "percent"), f"{interval(found, 'percent')}; of {whole(n)}")


def calibration_error_table(data: ReportData) -> Table | None:
    """Both errors before and after the last calibration; None where there was none, or nothing to compare."""
    stages = list(data.counts)
    calibrated = [of.stage for of in data.facts if of.kind == "calibrate" and of.stage in stages[1:]]
    if not calibrated:
        return None
    after = calibrated[-1]
    before = stages[stages.index(after) - 1]
    earlier, later = (with_all(data.counts[stage]) for stage in (before, after))
    rows = []
    for name, block in later.items():
        n = int(block.point.n)
        cells = [
            cell(estimate(error, of[name])) if name in of else Cell("–")
            for error in ("ece", "mce")
            for of in (earlier, later)
        ]
        rows.append(Row(name, (Cell(whole(n)), *cells), is_total=name == ALL))
    return Table(
        f"Calibration error after {before} and after {after}, with 95 % intervals",
        ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after"),
        tuple(rows),
    )


_OOD_COLUMNS = (
    "model",
    "trained on pictures",
    "of classes",
    "calibration pictures",
    "of known pictures flagged, at most",
    "flagged above distance",
    "flagged on test",
)


def ood_table(data: ReportData) -> Table | None:
    """One row per model with a detector; None where none has one."""
    models = {
        name: facts["novelty"]
        for of in data.facts
        for name, facts in (of.facts.get("models") or {}).items()
        if facts.get("novelty")
    }
    codes = [label.code for label in data.labels]
    rows = tuple(_ood_row(name, facts, codes) for name, facts in models.items())
    return Table("Pictures unlike those trained on", _OOD_COLUMNS, rows) if rows else None


def _ood_row(name: str, facts: Mapping[str, Any], codes: Sequence[str]) -> Row:
    missing = [code for code in codes if code not in facts["classes"]]
    threshold = facts["threshold"]
    cells = (
        Cell(whole(facts["trained_on"])),
        Cell(f"{len(facts['classes'])} of {len(codes)}", f"without {listed(missing)}" if missing else ""),
        Cell(whole(facts["n"])),
        Cell(number(facts["rate"], "percent")),
        Cell("flags none", "too few pictures") if threshold is None else Cell(f"{threshold:.1f}"),
        Cell(number(facts.get("flagged"), "percent")),
    )
    return Row(name, cells)
