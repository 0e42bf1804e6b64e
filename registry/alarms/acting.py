"""Aliases that go back by themselves at an alarm, where an operator allowed it; each alarm moves one once.

An alarm concerns an alias whose release has the version answer the subgroup to which the promise was broken.
The alias goes back to the newest release before that holds neither a withdrawn version nor one with an open
alarm. There may be none: then it stays, and whoever is called decides whether to stop it. Whoever promotes
the version again over the alarm has decided, too: no alarm moves an alias twice, and none moves one away
from what was promoted after it by overriding the gate `field`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from registry.alarms.told import Alarm, alarms_of, open_alarms
from registry.database.canaries import ended_with, running_canary
from registry.database.changes import AuditContext, insert_event, point_alias
from registry.database.connection import writing
from registry.database.queries import (
    current_release,
    events_of,
    events_since,
    moves_of,
    release_by_id,
    require_model,
    stack_of,
    withdrawn_members,
)
from registry.names import check_name
from registry.records import Event, EventKind, Release

GATE = "field"


@dataclass(frozen=True)
class Acted:
    """What alarms did by themselves.

    Attributes:
        moved: the event of each alias that went back.
        stuck: why another one stays though an alarm concerns it, a sentence without its full stop each.
    """

    moved: tuple[Event, ...]
    stuck: tuple[str, ...]


def allowed_aliases(connection: Connection, model: str) -> tuple[str, ...]:
    """The aliases of a model that alarms may move."""
    latest: dict[str, bool] = {}
    for event in events_of(connection, model, kinds=("withdraw-allowed", "withdraw-forbidden")):
        if event.alias is not None:
            latest[event.alias] = event.kind == "withdraw-allowed"
    return tuple(sorted(alias for alias, allowed in latest.items() if allowed))


def allow(engine: Engine, model: str, alias: str, context: AuditContext, *, allowed: bool) -> Event | None:
    """Lets alarms move an alias, or no longer; returns None where it is so already.

    Raises:
        NotFound: there is no such model.
        InvalidName: the alias cannot be one.
        PersonRefused: an operator has to sign it.
    """
    check_name("alias", alias)
    with writing(engine) as connection:
        require_model(connection, model)
        if (alias in allowed_aliases(connection, model)) == allowed:
            return None
        kind: EventKind = "withdraw-allowed" if allowed else "withdraw-forbidden"
        return insert_event(connection, kind, model, context, alias=alias)


def act(engine: Engine, model: str, context: AuditContext) -> Acted:
    """Moves every alias that alarms may move and that an open one concerns; all in one transaction.

    Raises:
        NotFound: there is no such model.
        PersonRefused: an operator has to sign it.
    """
    moved, stuck = [], []
    with writing(engine) as connection:
        require_model(connection, model)
        alarms = open_alarms(alarms_of(connection, model))
        for alias in allowed_aliases(connection, model) if alarms else ():
            told = _act_on(connection, model, alias, alarms, context)
            if isinstance(told, Event):
                moved.append(told)
            elif told:
                stuck.append(told)
    return Acted(tuple(moved), tuple(stuck))


def _act_on(
    connection: Connection, model: str, alias: str, alarms: Sequence[Alarm], context: AuditContext
) -> Event | str:
    """Moves an alias; else why not, empty where no alarm concerns it."""
    release = current_release(connection, model, alias)
    concerning = [] if release is None else [one for one in alarms if _concerns(one, release)]
    if release is None or not concerning:
        return ""
    due = [one for one in concerning if not _done_with(connection, model, alias, one)]
    if not due:
        numbers = _numbers(concerning)
        return (
            f"{alias} stays at release {release.id}, which {numbers} concerns: it has moved {alias} before, "
            f"or the release was promoted over it. Promote another version, stop {alias}, or close {numbers}"
        )
    withdrawn = withdrawn_members(connection, model)
    bad = {one.found.version for one in alarms}
    before, skipped = _before(connection, model, alias, withdrawn, bad)
    if before is None:
        held = "".join(
            f"; release {one['release']} holds a version that was withdrawn or has an open alarm"
            for one in skipped
        )
        return (
            f"{alias} stays at release {release.id} although {_numbers(due)} concerns it: there is no good "
            f"release to go back to{held}. Promote another version, or "
            f"`dermfed-registry stop {model} --alias {alias}`"
        )
    point_alias(connection, model, alias, before)
    details = {
        "on_alarms": [one.number for one in due],
        **({"skipped": skipped} if skipped else {}),
        **ended_with(running_canary(connection, model, alias)),
    }
    return insert_event(
        connection,
        "rolled-back",
        model,
        context,
        alias=alias,
        release=before,
        before=release.id,
        details=details,
    )


def _concerns(alarm: Alarm, release: Release) -> bool:
    """Whether the alarm's version answers its subgroup in a release."""
    if alarm.found.version not in [one.number for one in release.versions]:
        return False
    own = release.for_subgroup(alarm.found.subgroup)
    return own is None or own.number == alarm.found.version


def _done_with(connection: Connection, model: str, alias: str, alarm: Alarm) -> bool:
    """Whether the alarm has moved the alias before, or what it points to was promoted over it."""
    moves = events_since(connection, model, alias, alarm.event, ("promoted", "rolled-back", "stopped"))
    if any(alarm.number in (one.details or {}).get("on_alarms", ()) for one in moves):
        return True
    return bool(moves) and moves[-1].kind == "promoted" and _over_the_gate(moves[-1])


def _over_the_gate(event: Event) -> bool:
    results = () if event.gates is None else event.gates.results
    return event.overridden and any(one.gate == GATE and one.verdict == "refused" for one in results)


def _before(
    connection: Connection, model: str, alias: str, withdrawn: Mapping[int, Sequence[int]], bad: set[int]
) -> tuple[int | None, list[dict[str, object]]]:
    """The newest good release below the top of the stack, and those that are skipped, newest first."""
    skipped: list[dict[str, object]] = []
    for number in reversed(stack_of(moves_of(connection, model, alias))[:-1]):
        release = None if number is None else release_by_id(connection, number)
        if number is None or release is None:
            continue
        alarmed = sorted(bad & {one.number for one in release.versions})
        gone = list(withdrawn.get(number, ()))
        if not alarmed and not gone:
            return number, skipped
        skipped.append({"release": number, "withdrawn": gone, "alarmed": alarmed})
    return None, skipped


def _numbers(alarms: Sequence[Alarm]) -> str:
    return f"alarm {' and '.join(str(one.number) for one in alarms)}"
