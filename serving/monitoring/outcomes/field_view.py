"""Figures of the field as the service shows them: what one process has computed, for all of them to tell."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from registry.outcomes.alarms import Monitoring
from registry.outcomes.metrics import Share, SubgroupReport


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Told):
    """A share with its 95 % interval; `value` is None where nothing is known of it."""

    value: float | None
    low: float
    high: float


class FieldRow(_Told):
    """One version and one subgroup that it answered: what others than the database's owner may see.

    See `released_report`; where metrics are withheld, `malignant` is None too.
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
    """An alarm that is open: its number in history, None of a new one; and what it says."""

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


def rows_of(model: str, released: Sequence[SubgroupReport]) -> Sequence[FieldRow]:
    """The released metrics of a model."""
    return [_row(model, one) for one in released]


def alarms_in(model: str, found: Monitoring) -> Sequence[OpenAlarm]:
    """The open alarms of a model."""
    return [
        OpenAlarm(model=model, version=one.version, number=one.number, said=one.said) for one in found.open
    ]


def _row(model: str, one: SubgroupReport) -> FieldRow:
    of = one.metrics
    return FieldRow(
        model=model,
        version=one.version,
        made_for=one.made_for,
        subgroup=one.subgroup,
        answered=one.answered,
        outcomes=one.outcomes,
        malignant=one.malignant,
        reported=one.reported,
        seen_sensitivity=_figure(of.sensitivity.seen if of else None),
        sensitivity=_figure(of.sensitivity.corrected if of else None),
        seen_specificity=_figure(of.specificity.seen if of else None),
        specificity=_figure(of.specificity.corrected if of else None),
        coverage=_figure(of.coverage.seen if of else None),
    )


def _figure(share: Share | None) -> Figure:
    if share is None:
        return Figure(value=None, low=0.0, high=1.0)
    return Figure(value=share.value, low=share.interval[0], high=share.interval[1])
