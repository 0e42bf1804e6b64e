"""The gate sets in the database: immutable, and numbered for each model and for all models.

A set is of one model or of all, and of one alias or of all. Asked is the newest of the narrowest there is:
of the model under this alias, of the model, of all models under this alias, of all.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select

from registry.bundle.manifest.schema import sha256
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import require_model
from registry.database.tables import GateSetRow
from registry.errors import ReleaseRefused
from registry.gate_report import set_title
from registry.gates.gate_set import DEFAULT, GateSet, gate_set_of
from registry.gates.narrowest import ALL_ALIASES, ALL_MODELS, narrowest_first
from registry.names import check_name, no_such_number
from registry.records import Event


@dataclass(frozen=True)
class StoredGateSet:
    """A gate set as the registry stores it.

    Attributes:
        model: whose it is; empty for all models.
        number: 1, 2, … in the order of setting; 0 for the one that a registry begins with.
        gates: the gates.
        created: when it was set; None for number 0.
        actor: who set it.
        alias: for which alias it is; empty for all.
    """

    model: str
    number: int
    gates: GateSet
    created: datetime | None = None
    actor: str | None = None
    alias: str = ""

    def __str__(self) -> str:
        return f"gate {set_title(self.model, self.number, self.alias)}"


def current_gates(connection: Connection, model: str, alias: str = ALL_ALIASES) -> StoredGateSet:
    """The gates that a release of the model must pass under an alias: of the narrowest set that there is.

    Raises:
        GateSetInvalid: one of them cannot be asked, since the package that offers it is gone, say.
    """
    row = newest_row(connection, model, alias)
    return StoredGateSet(ALL_MODELS, 0, DEFAULT) if row is None else _read(row)


def numbered_gates(connection: Connection, model: str, number: int) -> StoredGateSet:
    """One gate set of a model, or of all models.

    Raises:
        NotFound: there is none of this number.
        GateSetInvalid: one of its gates cannot be asked.
    """
    if (model, number) == (ALL_MODELS, 0):
        return StoredGateSet(ALL_MODELS, 0, DEFAULT)
    rows = {row.number: row for row in _rows(connection, model)}
    if number not in rows:
        of = f" of model {model!r}" if model else " for all models"
        numbers = [*([] if model else [0]), *rows]
        raise no_such_number("gate set", number, numbers, of=of)
    return _read(rows[number])


def insert_gates(
    connection: Connection, model: str, gates: GateSet, actor: str, alias: str = ALL_ALIASES
) -> StoredGateSet:
    """Keeps a gate set, which holds from now on; numbers count on, whichever alias it is for."""
    rows = _rows(connection, model)
    now = datetime.now(UTC)
    new = StoredGateSet(model, rows[-1].number + 1 if rows else 1, gates, now, actor, alias)
    connection.execute(
        insert(GateSetRow).values(
            model=model,
            number=new.number,
            created=now,
            actor=actor,
            content=gates.model_dump(mode="json"),
            alias=alias,
        )
    )
    return new


def read_gates(
    engine: Engine, model: str | None, number: int | None, alias: str | None = None
) -> StoredGateSet:
    """The gates of a model, or of all models, under an alias or any; those in force, or those of a number.

    Raises:
        NotFound: there is no such model, or it has no set of this number.
    """
    with reading(engine) as connection:
        if model is not None:
            require_model(connection, model)
        if number is None:
            return current_gates(connection, model or ALL_MODELS, alias or ALL_ALIASES)
        return numbered_gates(connection, model or ALL_MODELS, number)


def change_gates(
    engine: Engine, gates: GateSet, model: str | None, context: AuditContext, alias: str | None = None
) -> Event | None:
    """Puts a gate set in force for a model or for all, under one alias or under all.

    Returns None where it is in force already.

    Raises:
        NotFound: there is no such model.
        InvalidName: the alias cannot be one.
        ReleaseRefused: there is no reason.
    """
    if context.reason is None:
        raise ReleaseRefused("changing the gates needs a reason, which history keeps; add --reason TEXT")
    if alias is not None:
        check_name("alias", alias)
    under = alias or ALL_ALIASES
    with writing(engine) as connection:
        if model is not None:
            require_model(connection, model)
        whose = model or ALL_MODELS
        # Not read as gates: one whose package is gone must not keep others from being asked.
        before = newest_row(connection, whose, under)
        content = gates.model_dump(mode="json")
        if before is not None and (before.model, before.alias, before.content) == (whose, under, content):
            return None
        after = insert_gates(connection, whose, gates, context.actor, under)
        details = {
            "before": _named(ALL_MODELS, 0, DEFAULT.model_dump(mode="json"))
            if before is None
            else _named(before.model, before.number, before.content, before.alias),
            "after": _named(after.model, after.number, content, after.alias),
        }
        return insert_event(connection, "gates-changed", after.model, context, alias=alias, details=details)


def gate_set_digest(content: Any) -> str:
    """The digest of a gate set: `sha256:` and 64 hex digits, of its canonical JSON."""
    return sha256(json.dumps(content, sort_keys=True).encode())


def _named(model: str, number: int, content: Any, alias: str = ALL_ALIASES) -> dict[str, str | int]:
    named: dict[str, str | int] = {"model": model, "number": number, "digest": gate_set_digest(content)}
    return {**named, "alias": alias} if alias else named


def _rows(connection: Connection, model: str) -> list[Row[Any]]:
    """The sets of a model as the database holds them, the oldest first."""
    query = select(*GateSetRow.__table__.columns).where(GateSetRow.model == model)
    return list(connection.execute(query.order_by(GateSetRow.number)))


def newest_row(connection: Connection, model: str, alias: str) -> Row[Any] | None:
    """The set that a model is asked under an alias, of the narrowest kind; None where nobody has set any."""
    rows = {whose: _rows(connection, whose) for whose in dict.fromkeys((model, ALL_MODELS))}
    for whose, under in narrowest_first(model, alias):
        if found := [row for row in rows[whose] if row.alias == under]:
            return found[-1]
    return None


def _read(row: Row[Any]) -> StoredGateSet:
    gates = gate_set_of(row.content, f"gate set {row.number} in the database")
    return StoredGateSet(row.model, row.number, gates, row.created, row.actor, row.alias)
