"""Which database of outcomes is a model's: named once by an event, so that no other one speaks for it.

Whoever promotes chooses which address the gate reads. So the database says an id, and the chain of events
which id is the model's. A copy of a database has its id: restoring one needs no word of anybody.
"""

from sqlalchemy import Connection, Engine

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import events_of, require_model
from registry.errors import OutcomesNotNamed, ReleaseRefused
from registry.records import Event

_HOW = (
    "`dermfed-registry field {model} --name-outcomes` names it, if it is the one that the service writes to"
)


def named_database(connection: Connection, model: str) -> str | None:
    """The id of the database of outcomes of a model; None where none was named."""
    events = events_of(connection, model, kinds=("outcomes-named",))
    return str((events[-1].details or {})["database"]) if events else None


def require_named(connection: Connection, model: str, database: str) -> None:
    """Refuses a database of outcomes that is not the model's.

    Raises:
        OutcomesNotNamed: the registry knows another one, or none yet.
    """
    how = _HOW.format(model=model)
    if (named := named_database(connection, model)) is None:
        raise OutcomesNotNamed(
            f"the registry has not been told which database of outcomes is that of {model}: this one says "
            f"that it is {database or 'none'}; {how}"
        )
    if named != database:
        raise OutcomesNotNamed(
            f"this is not the database of outcomes of {model}: it says that it is {database or 'none'}, and "
            f"history names {named}. Name the right one in DERMFED_OUTCOMES_URL; if it was lost, {how}, with "
            "a --reason. Alarms that are open stay open"
        )


def name_database(engine: Engine, model: str, database: str, context: AuditContext) -> Event | None:
    """Names the database of outcomes of a model; returns None where it is this one already.

    Raises:
        NotFound: there is no such model.
        OutcomesNotNamed: the database does not say who it is.
        PersonRefused: an operator has to sign it.
        ReleaseRefused: another one was named, and there is no reason.
    """
    if not database:
        raise OutcomesNotNamed("the database of outcomes has lost its id; restore a copy of it")
    with reading(engine) as connection:
        require_model(connection, model)
        if named_database(connection, model) == database:
            return None
    with writing(engine) as connection:
        before = named_database(connection, model)
        if before == database:
            return None
        if before is not None and context.reason is None:
            raise ReleaseRefused(
                f"history names another database of outcomes for {model} ({before}); to take this one "
                f"({database}) in its place, say why with --reason TEXT, which history keeps"
            )
        details = {"database": database, **({} if before is None else {"before": before})}
        return insert_event(connection, "outcomes-named", model, context, details=details)
