"""Figures of the field as the service shows them: what one process has computed, for all of them to tell."""

from collections.abc import Sequence
from datetime import datetime
from math import isnan
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from registry.outcomes.alarms import Alarm, Look, open_alarms, said
from registry.outcomes.monitoring import ReleasedFigures, SubgroupInField

if TYPE_CHECKING:
    from registry.bundle.metrics.intervals import Limits


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Told):
    """A share with its 95 % interval; `value` is None where nothing is known of it."""

    value: float | None
    low: float
    high: float


class FieldRow(_Told):
    """One version and one subgroup that it answered: what others than the database's owner may see.

    See `ReleasedFigures`; where there are none, nothing is told of what outcomes were: `malignant` is None.
    """

    model: str
    version: int
    made_for: str
    subgroup: str
    answered: int
    outcomes: int
    malignant: int | None
    reported: float
    seen_sensitivity: Figure
    sensitivity: Figure
    seen_specificity: Figure
    specificity: Figure
    coverage: Figure


class OpenAlarm(_Told):
    """An alarm that is open: its number in history, None where that has not been told; and what it says."""

    model: str
    version: int
    number: int | None
    said: str


class FieldView(_Told):
    """What the last look has found.

    Attributes:
        tried: when it was.
        looked: when figures could be computed last; None where they never could.
        models: of which.
        rows, alarms: what was found then.
        issues: why they could not be computed at the last look, a sentence for each model.
    """

    tried: datetime
    looked: datetime | None = None
    models: tuple[str, ...] = ()
    rows: tuple[FieldRow, ...] = ()
    alarms: tuple[OpenAlarm, ...] = ()
    issues: tuple[str, ...] = ()


def rows_of(model: str, found: Look, released: Sequence[ReleasedFigures]) -> Sequence[FieldRow]:
    """The figures of a model that may be told."""
    told = {(one.version, one.subgroup): one for one in released}
    return [_row(model, one, told[one.version, one.subgroup]) for one in found.report]


def alarms_in(model: str, found: Look) -> Sequence[OpenAlarm]:
    """The open alarms of a model."""
    told: list[Alarm] = list(open_alarms(found.alarms))
    return [
        *(
            OpenAlarm(model=model, version=one.found.version, number=one.number, said=said(one.found))
            for one in told
        ),
        *(OpenAlarm(model=model, version=one.version, number=None, said=said(one)) for one in found.untold),
    ]


def _row(model: str, one: SubgroupInField, told: ReleasedFigures) -> FieldRow:
    of = told.figures
    return FieldRow(
        model=model,
        version=one.version,
        made_for=one.made_for,
        subgroup=one.subgroup,
        answered=one.figures.answered,
        outcomes=told.outcomes,
        malignant=None if of is None else of.malignant,
        reported=one.reported,
        seen_sensitivity=_figure(of.seen_sensitivity if of else None),
        sensitivity=_figure(of.sensitivity if of else None),
        seen_specificity=_figure(of.seen_specificity if of else None),
        specificity=_figure(of.specificity if of else None),
        coverage=_figure(told.coverage),
    )


def _figure(limits: "Limits | None") -> Figure:
    if limits is None:
        return Figure(value=None, low=0.0, high=1.0)
    value = float(limits.value)
    return Figure(value=None if isnan(value) else value, low=float(limits.low), high=float(limits.high))
