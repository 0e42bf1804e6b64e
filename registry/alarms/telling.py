"""Alarms into the chain of events, and out of it: whoever closes one says why."""

from collections.abc import Sequence

from sqlalchemy import Engine

from registry.alarms.told import Alarm, FoundAlarm, alarms_of, details_of
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import writing
from registry.database.queries import all_versions, require_model
from registry.errors import AlarmClosed, ReleaseRefused
from registry.names import no_such_number
from registry.records import Event, moment


def tell_alarms(
    engine: Engine, model: str, found: Sequence[FoundAlarm], context: AuditContext
) -> tuple[Event, ...]:
    """Tells the registry of alarms; of a promise with an open one, none is told a second time.

    Args:
        engine: of the registry.
        model: the model's name.
        found: as `look` found them.
        context: who tells.

    Raises:
        PersonRefused: an operator has to sign it.
    """
    if not found:
        return ()
    told = []
    with writing(engine) as connection:
        alarms = alarms_of(connection, model)
        still = {one.found.key for one in alarms if one.is_open}
        versions = {one.number for one in all_versions(connection, model)}
        number = len(alarms)
        for one in found:
            if one.key in still or one.version not in versions:
                continue
            number, still = number + 1, still | {one.key}
            details = details_of(number, one)
            told.append(
                insert_event(connection, "alarm", model, context, versions=[one.version], details=details)
            )
    return tuple(told)


def close_alarm(engine: Engine, model: str, number: int, context: AuditContext) -> Event:
    """Closes an alarm for good. What became known until today is spent: the promise is watched anew.

    Raises:
        NotFound: there is no such model or alarm.
        AlarmClosed: it was closed before.
        PersonRefused: an operator has to sign it.
        ReleaseRefused: there is no reason.
    """
    if context.reason is None:
        raise ReleaseRefused("closing an alarm needs a reason, which history keeps; add --reason TEXT")
    with writing(engine) as connection:
        require_model(connection, model)
        alarms = {one.number: one for one in alarms_of(connection, model)}
        if (alarm := alarms.get(number)) is None:
            raise no_such_number("alarm", number, alarms, of=f" of model {model!r}")
        _require_open(alarm)
        found = alarm.found
        details = {"alarm": number, "subgroup": found.subgroup, "of": found.of}
        return insert_event(
            connection, "alarm-closed", model, context, versions=[found.version], details=details
        )


def _require_open(alarm: Alarm) -> None:
    if alarm.closed is not None:
        raise AlarmClosed(
            f"alarm {alarm.number} was closed by {alarm.closed_by} at {moment(alarm.closed)} ({alarm.why}); "
            "there is nothing to close"
        )
