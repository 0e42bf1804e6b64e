"""What went wrong in a run for a patient, found in the figures of its stages.

| kind | of a subgroup, or of all pictures together |
| --- | --- |
| `lost_sensitivity` | a stage lowered malignant sensitivity by more than 5 points, or by more than chance |
| `missed_sensitivity` | at the working point, sensitivity on test pictures is below its target |
| `missed_risk` | of the answers given, more were wrong than the target allows |
| `nearly_nobody_answered` | fewer than 20 % of the pictures got an answer |
| `untested` | there are no malignant test pictures, or none at all |

More than chance is a loss, or a miss, whose 95 % interval excludes none. That of a loss is of independent
figures (MOVER, Zou & Donner 2008): the same pictures were judged, but which of them were found before and
after is not told, so that the interval is wider than it need be. All that is found is told, chance or not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from registry.bundle.labels import GLOBAL, UNDECLARED
from registry.bundle.metrics.intervals import Limits
from registry.bundle.metrics.patient import ALL, PatientFigures, Told, patient_figures, told

Kind = Literal["lost_sensitivity", "missed_sensitivity", "missed_risk", "nearly_nobody_answered", "untested"]

LOST: Final = 0.05
"""A sensitivity that falls farther than this is told even where it may be chance."""

ANSWERED: Final = 0.2
"""Where a smaller share of pictures than this is answered, the model is of nearly no use."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Finding:
    """One thing that went wrong.

    Attributes:
        kind: what.
        subgroup: for whom; `all` for all test pictures.
        figure: the figure that shows it, by its name in the test figures.
        value: what it is; None where nobody was tested.
        limit: what it should have kept to: the target, or the figure before the stage.
        text: a sentence for people, with numbers and intervals.
    """

    kind: Kind
    subgroup: str
    figure: str
    value: float | None
    limit: float
    text: str


@dataclass(frozen=True)
class Judged:
    """The test figures of the models that a stage left.

    Attributes:
        stage: its name.
        test: what `summarise` made of their counts.
        models: per model, `global` among them, what calibration fixed: `abstention` with its `target_risk`,
            and `working_point` with its `target`; empty of a stage that does not calibrate.
    """

    stage: str
    test: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]]


def findings(stages: Sequence[Judged]) -> list[Finding]:
    """What went wrong, the worst kind first.

    Args:
        stages: those that left models to be released, in order.
    """
    found = [one for pair in pairwise(stages) for one in _lost(*pair)]
    calibrated = [stage for stage in stages if any("abstention" in model for model in stage.models.values())]
    if calibrated:
        found += [*_missed_sensitivity(calibrated[-1]), *_missed_risk(calibrated[-1])]
        found += _nearly_nobody(calibrated[-1])
    return [*found, *_untested(stages[-1].test)] if stages else found


def _lost(before: Judged, after: Judged) -> Iterator[Finding]:
    name = "malignant_sensitivity"
    earlier = patient_figures(_rows_together(before.test))
    for subgroup, now in patient_figures(_rows_together(after.test)).items():
        then = earlier.get(subgroup)
        if then is None:
            continue
        was, now_is = then.figures[name], now.figures[name]
        if was.value is None or now_is.value is None or now_is.value >= was.value:
            continue
        lost = _limits(was) - _limits(now_is)
        certain = bool(lost.low > 0)
        if not certain and lost.value <= LOST + _ROUNDING:
            continue
        yield Finding(
            "lost_sensitivity",
            subgroup,
            name,
            now_is.value,
            was.value,
            f"{_who(subgroup)}: {after.stage} lowered malignant sensitivity from {_share(was.value)} to "
            f"{_share(now_is.value)} ({_found(was, then)}, then {_found(now_is, now)} malignant pictures), "
            f"by {_points(lost)}. {_chance(certain)}",
        )


def _missed_sensitivity(stage: Judged) -> Iterator[Finding]:
    name = "sensitivity_at_threshold"
    for subgroup, row, rules in _calibrated(stage):
        target, reached = (rules.get("working_point") or {}).get("target"), told(row, name)
        if target is None or reached.value is None or reached.value >= target - _ROUNDING:
            continue
        missed = reached.interval is not None and reached.interval[1] < target
        yield Finding(
            "missed_sensitivity",
            subgroup,
            name,
            reached.value,
            target,
            f"{_who(subgroup)}: at the working point {_with_interval(reached)} of the malignant test "
            f"pictures are suspicious, where {_share(target)} was asked for: "
            f"{'the target is missed' if missed else 'it is not shown to be reached'}.",
        )


def _missed_risk(stage: Judged) -> Iterator[Finding]:
    name = "reported_risk"
    for subgroup, row, rules in _calibrated(stage):
        target, risk = (rules.get("abstention") or {}).get("target_risk"), told(row, name)
        if target is None or risk.value is None or risk.value <= target + _ROUNDING:
            continue
        certain = risk.interval is not None and risk.interval[0] > target
        yield Finding(
            "missed_risk",
            subgroup,
            name,
            risk.value,
            target,
            f"{_who(subgroup)}: {_with_interval(risk)} of the answers given are wrong, where at most "
            f"{_share(target)} are allowed. {_chance(certain)}",
        )


def _nearly_nobody(stage: Judged) -> Iterator[Finding]:
    name = "reported"
    for subgroup, row, _ in _calibrated(stage):
        answered = told(row, name)
        if answered.value is not None and answered.value < ANSWERED - _ROUNDING:
            whom = "nobody is" if not answered.value else "nearly nobody is"
            yield Finding(
                "nearly_nobody_answered",
                subgroup,
                name,
                answered.value,
                ANSWERED,
                f"{_who(subgroup)}: {whom} answered: {_with_interval(answered)} of the test pictures.",
            )


def _untested(test: Mapping[str, Any]) -> Iterator[Finding]:
    for name in test.get("absent", ()):
        if name != UNDECLARED:
            yield Finding(
                "untested", name, "n", None, 1, f"{_who(name)}: no test pictures, so nothing is known of it."
            )
    for name, row in patient_figures(test).items():
        of_both_kinds = row.figures["malignant_specificity"].value is not None
        if name not in (ALL, UNDECLARED) and row.n_malignant == 0 and of_both_kinds:
            text = "no malignant test pictures, so it is unknown whether malignant lesions are found."
            yield Finding("untested", name, "n_malignant", 0, 1, f"{_who(name)}: {text}")


def _calibrated(stage: Judged) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Each subgroup with its figures, and what was fixed of the model that answers for it."""
    everybody = stage.models.get(GLOBAL, {})
    test = _rows_together(stage.test)
    for name, row in {ALL: test, **test["by_subgroup"]}.items():
        yield name, row, stage.models.get(name, everybody)


def _rows_together(test: Mapping[str, Any]) -> dict[str, Any]:
    """The test figures; those of all pictures are left out where all are of one subgroup."""
    rows = test.get("by_subgroup") or {}
    return {"by_subgroup": rows} if len(rows) == 1 else {**test, "by_subgroup": rows}


def _limits(figure: Told) -> Limits:
    assert figure.value is not None, "a figure that is there"
    low, high = figure.interval or (0.0, 1.0)
    return Limits(*(np.array(end) for end in (figure.value, low, high)))


def _who(subgroup: str) -> str:
    return "All pictures" if subgroup == ALL else subgroup


def _found(figure: Told, of: PatientFigures) -> str:
    """`18 of 21`."""
    if figure.value is None or of.n_malignant is None:
        return "of unknown number"
    return f"{round(figure.value * of.n_malignant)} of {of.n_malignant}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _with_interval(figure: Told) -> str:
    assert figure.value is not None, "a figure that is there"
    if figure.interval is None:
        return _share(figure.value)
    low, high = figure.interval
    return f"{_share(figure.value)} ({100 * low:.1f} to {100 * high:.1f})"


def _points(lost: Limits) -> str:
    return f"{100 * lost.value:.1f} points ({100 * lost.low:.1f} to {100 * lost.high:.1f})"


def _chance(certain: bool) -> str:
    return "That is more than chance." if certain else "It may be chance."
