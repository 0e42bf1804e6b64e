"""Going back: to the release before, to nothing (a stop), or away from a version that is withdrawn.

Gates are not asked: going back must always work. A release that holds a withdrawn version is never gone back
to; it is skipped, and the event says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine

from registry.database.changes import AuditContext, insert_event, insert_withdrawal, move_alias
from registry.database.connection import writing
from registry.database.queries import (
    alias_names,
    current_release,
    moves_of,
    require_model,
    running_canary,
    same_model_file,
    stack_of,
    stops,
    versions_by_number,
    withdrawals,
    withdrawn_members,
)
from registry.database.tables import version_facts
from registry.errors import AliasMoved, NotFound, NothingToRollBack, ReleaseRefused
from registry.names import not_found
from registry.records import Canary, Event, EventKind, Release, moment
from registry.releases.rollout import write_end


@dataclass(frozen=True)
class Withdrawn:
    """What came of withdrawing versions.

    Attributes:
        event: the event of the withdrawal.
        moved: the event of each alias that pointed to a release with one of them, and of each canary that
            held one.
        same_file: other versions with the same `model.onnx`, as model and number, which may be as harmful.
    """

    event: Event
    moved: tuple[Event, ...]
    same_file: tuple[tuple[str, int], ...]


def roll_back(
    engine: Engine, model: str, alias: str, context: AuditContext, expect: int | None = None
) -> Event:
    """Rolls an alias back to the release before the one it points to, or before it was stopped.

    Raises:
        AliasMoved: the alias points to another release than `expect`.
        NotFound: there is no such model or alias.
        NothingToRollBack: there is no release before it that may answer.
    """
    with writing(engine) as connection:
        require_model(connection, model)
        stack = stack_of(moves_of(connection, model, alias))
        if not stack:
            raise not_found("alias", alias, known_aliases(connection, model), of=f" of model {model!r}")
        running = current_release(connection, model, alias)
        if expect is not None and release_number(running) != expect:
            raise AliasMoved(f"nothing was rolled back: {alias_moved(model, alias, expect, running)}")
        withdrawn = withdrawn_members(connection, model)
        release, skipped = _before(stack, withdrawn)
        canary = running_canary(connection, model, alias)
        if release is None:
            told = _nothing_before(model, alias, stack, skipped, withdrawn)
            if canary is not None:
                told += ". A canary runs next to it: `dermfed-registry canary end` ends that"
            raise NothingToRollBack(told)
        return move_alias(
            connection,
            "rolled-back",
            model,
            alias,
            context,
            to=release,
            before=stack[-1],
            canary=canary,
            details=_skipped(skipped, withdrawn),
        )


def stop(engine: Engine, model: str, alias: str, context: AuditContext) -> Event | None:
    """Stops an alias: it points to nothing; None where it was stopped before.

    Raises:
        NotFound: there is no such model or alias.
        ReleaseRefused: there is no reason.
    """
    context.require_reason("stopping")
    with writing(engine) as connection:
        require_model(connection, model)
        if (release := current_release(connection, model, alias)) is None:
            if stops(connection, model, alias):
                return None
            raise not_found("alias", alias, known_aliases(connection, model), of=f" of model {model!r}")
        canary = running_canary(connection, model, alias)
        return move_alias(
            connection, "stopped", model, alias, context, to=None, before=release.id, canary=canary
        )


def withdraw(engine: Engine, model: str, numbers: Sequence[int], context: AuditContext) -> Withdrawn | None:
    """Withdraws versions for good, and moves every alias away from them, in one transaction.

    An alias whose release holds one goes back to the newest release before it that holds no withdrawn
    version, and is stopped where there is none. Returns None where all of them were withdrawn before.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: there is no reason, or no version is named.
    """
    reason = context.require_reason("withdrawing")
    if not numbers:
        raise ReleaseRefused(f"no version of {model} is named; name at least one, such as 1")
    with writing(engine) as connection:
        versions = versions_by_number(connection, model, list(dict.fromkeys(numbers)))
        known = {one.number for one in withdrawals(connection, model)}
        if not (new := [one for one in versions if one.number not in known]):
            return None
        taken = [one.number for one in new]
        facts = [
            {name: row[name] for name in ("number", "digest", "model_digest")}
            for row in version_facts(connection, model, taken)
        ]
        aliases = alias_names(connection, model)
        canaries = {one: running_canary(connection, model, one) for one in aliases}
        details = {"withdrawn": facts}
        event = insert_event(connection, "withdrawn", model, context, versions=taken, details=details)
        for version in new:
            insert_withdrawal(connection, version, reason, event.time)
        withdrawn = withdrawn_members(connection, model)
        moved = [
            _move_away(connection, model, alias, canaries[alias], withdrawn, context) for alias in aliases
        ]
        same = {other for one in facts for other in same_model_file(connection, one["model_digest"])}
        same -= {(one.model, one.number) for one in withdrawals(connection)}
        return Withdrawn(event, tuple(one for one in moved if one is not None), tuple(sorted(same)))


def release_number(release: Release | None) -> int:
    """The number of a release; 0 for none."""
    return 0 if release is None else release.id


def alias_moved(model: str, alias: str, expected: int, running: Release | None) -> str:
    """That an alias points to another release than was expected, and what to do."""
    there, number = (f"release {one}" if one else "nothing" for one in (expected, release_number(running)))
    return (
        f"{alias} of {model} was expected to point to {there}, and points to {number} now. Look at what "
        f"would change there, and do it again with --expect {release_number(running)}"
    )


def required_release(connection: Connection, model: str, alias: str) -> Release:
    """The release that an alias points to.

    Raises:
        NotFound: there is no such model or alias, or the alias was stopped.
    """
    require_model(connection, model)
    if (release := current_release(connection, model, alias)) is not None:
        return release
    for event in stops(connection, model, alias):
        raise NotFound(
            f"{alias} of {model} points to nothing: {event.actor} stopped it at {moment(event.time)} "
            f"({event.reason}). Go back with `dermfed-registry rollback`, or promote a version"
        )
    raise not_found("alias", alias, known_aliases(connection, model), of=f" of model {model!r}")


def known_aliases(connection: Connection, model: str) -> tuple[str, ...]:
    """The aliases of a model, stopped ones too."""
    stopped = [event.alias for event in stops(connection, model) if event.alias]
    return tuple(sorted({*alias_names(connection, model), *stopped}))


def _move_away(
    connection: Connection,
    model: str,
    alias: str,
    canary: Canary | None,
    withdrawn: Mapping[int, Sequence[int]],
    context: AuditContext,
) -> Event | None:
    """Moves the alias if its release has a withdrawn version, or ends its canary if that has one."""
    release = current_release(connection, model, alias)
    if release is None or release.id not in withdrawn:
        if canary is None or canary.release.id not in withdrawn:
            return None
        because = {"because": list(withdrawn[canary.release.id])}
        return write_end(connection, model, canary, context, because)
    before, skipped = _before(stack_of(moves_of(connection, model, alias)), withdrawn)
    details = {"because": list(withdrawn[release.id]), **_skipped(skipped, withdrawn)}
    kind: EventKind = "stopped" if before is None else "rolled-back"
    return move_alias(
        connection,
        kind,
        model,
        alias,
        context,
        to=before,
        before=release.id,
        canary=canary,
        details=details,
    )


def _before(
    stack: Sequence[int | None], withdrawn: Mapping[int, Sequence[int]]
) -> tuple[int | None, list[int]]:
    """The newest release below the top that holds no withdrawn version, and those between, newest first."""
    skipped: list[int] = []
    for release in reversed(stack[:-1]):
        if release is not None and release not in withdrawn:
            return release, skipped
        if release is not None:
            skipped.append(release)
    return None, skipped


def _skipped(skipped: Sequence[int], withdrawn: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    told = [{"release": one, "withdrawn": list(withdrawn[one])} for one in skipped]
    return {"skipped": told} if told else {}


def _nothing_before(
    model: str,
    alias: str,
    stack: Sequence[int | None],
    skipped: Sequence[int],
    withdrawn: Mapping[int, Sequence[int]],
) -> str:
    here = "was stopped" if stack[-1] is None else f"points to release {stack[-1]}"
    if not skipped:
        first = "its first release, " if stack[-1] is not None else ""
        here = f"points to {first}{stack[-1]}" if first else here
        return f"{alias} of {model} {here}; there is none before it. Promote another version instead"
    held = ", ".join(
        f"release {one} holds version {' and '.join(map(str, withdrawn[one]))}" for one in skipped
    )
    return (
        f"{alias} of {model} {here}, and nothing before it may answer: {held}, withdrawn. Promote another "
        "version instead"
    )
