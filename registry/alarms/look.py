"""One look at the field: figures, and every alarm, those that history does not know yet among them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Engine

from registry.alarms.told import Alarm, FoundAlarm, alarms_of, closed_until, open_alarms
from registry.bundle.manifest.schema import BundleManifest
from registry.database.connection import reading
from registry.field.report import SubgroupInField, field_report
from registry.outcomes.store import OutcomeStore

_MOST: Final = 1e300  # no database and no JSON holds an infinity


@dataclass(frozen=True)
class Look:
    """What is known of a model in the field at one moment.

    Attributes:
        report: figures by version and subgroup.
        alarms: those that history knows, closed ones too.
        untold: those that it does not know yet; open.
    """

    report: tuple[SubgroupInField, ...]
    alarms: tuple[Alarm, ...]
    untold: tuple[FoundAlarm, ...]

    @property
    def open(self) -> tuple[FoundAlarm, ...]:
        """Every open alarm, told or not."""
        return (*(one.found for one in open_alarms(self.alarms)), *self.untold)


def look(
    engine: Engine, store: OutcomeStore, model: str, manifest_of: Callable[[int], BundleManifest | None]
) -> Look:
    """Computes the figures of a model, and what alarms they show.

    Args:
        engine: of the registry.
        store: the database of outcomes.
        model: the model's name.
        manifest_of: as of `field_report`.

    Raises:
        DatabaseError: one of the databases cannot be read.
    """
    with reading(engine) as connection:
        alarms = alarms_of(connection, model)
    closed = {key: time.date() for key, time in closed_until(alarms).items()}
    report = field_report(store, model, manifest_of, closed)
    still = {one.found.key for one in open_alarms(alarms)}
    return Look(tuple(report), alarms, tuple(one for one in _found(report) if one.key not in still))


def _found(report: Sequence[SubgroupInField]) -> list[FoundAlarm]:
    now = datetime.now(UTC)
    return [
        FoundAlarm(
            one.version,
            one.subgroup,
            kept.promise.what,
            kept.promise.least,
            min(kept.evidence, _MOST),
            kept.limit,
            kept.outcomes,
            kept.broken_on,
            now,
        )
        for one in report
        for kept in one.alarms
        if kept.broken_on is not None
    ]
