"""One look at the field: figures, and every alarm: told to the registry, kept beside outcomes, or new."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from sqlalchemy import Engine

from registry.alarms.database import named_database, require_named
from registry.alarms.told import Alarm, alarms_of, closed_until, is_settled, open_alarms
from registry.bundle.manifest.schema import BundleManifest
from registry.database.connection import reading
from registry.errors import DatabaseError
from registry.field.report import SubgroupInField, field_report
from registry.outcomes.kept_alarms import FoundAlarm, keep_alarms, kept_alarms, new_id, without_open
from registry.outcomes.store import OutcomeStore

_MOST: Final = 1e300  # no database and no JSON holds an infinity


@dataclass(frozen=True)
class Look:
    """What is known of a model in the field at one moment.

    Attributes:
        database: the id of the database of outcomes.
        report: figures by version and subgroup.
        alarms: those that history knows, closed ones too.
        untold: those that it does not know yet; open.
    """

    database: str
    report: tuple[SubgroupInField, ...]
    alarms: tuple[Alarm, ...]
    untold: tuple[FoundAlarm, ...]

    @property
    def open(self) -> tuple[FoundAlarm, ...]:
        """Every open alarm, told or not."""
        return (*(one.found for one in open_alarms(self.alarms)), *self.untold)


def look(
    engine: Engine,
    store: OutcomeStore,
    model: str,
    manifest_of: Callable[[int], BundleManifest | None],
    *,
    before_naming: bool = False,
) -> Look:
    """Computes the figures of a model, and keeps what alarms they show.

    Where alarms cannot be kept beside the outcomes, since whoever looks may not write there, they are told
    all the same.

    Args:
        engine: of the registry.
        store: the database of outcomes.
        model: the model's name.
        manifest_of: as of `field_report`.
        before_naming: whether a model without a named database of outcomes may be looked at.

    Raises:
        OutcomesNotNamed: this is not the model's database of outcomes.
        DatabaseError: one of the databases cannot be read.
    """
    database = store.identity()
    with reading(engine) as connection:
        if not before_naming or named_database(connection, model) is not None:
            require_named(connection, model, database)
        alarms = alarms_of(connection, model)
    closed = {key: time.date() for key, time in closed_until(alarms).items()}
    report = field_report(store, model, manifest_of, closed)
    known = {one.found.id for one in alarms}
    still = {one.found.key for one in open_alarms(alarms)}
    new = [one for one in _found(report) if one.key not in still]
    kept = [
        one for one in _kept(store, model, new, alarms) if one.id not in known and not is_settled(alarms, one)
    ]
    return Look(database, tuple(report), alarms, tuple(one for one in kept if one.key not in still))


def _kept(
    store: OutcomeStore, model: str, new: Sequence[FoundAlarm], alarms: Sequence[Alarm]
) -> list[FoundAlarm]:
    settled = partial(is_settled, alarms)
    if new:
        with suppress(DatabaseError):  # whoever looks may not write there
            return keep_alarms(store, model, new, settled)
    kept = kept_alarms(store, model)
    return [*kept, *without_open(new, kept, settled)]


def _found(report: Sequence[SubgroupInField]) -> list[FoundAlarm]:
    now = datetime.now(UTC)
    return [
        FoundAlarm(
            new_id(),
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
