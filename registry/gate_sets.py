"""Gate sets in the database: numbered for each model and for all models, and never changed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, insert, select

from registry.bundle.schema import sha256
from registry.changes import Note, insert_event
from registry.database import reading, writing
from registry.errors import ReleaseRefused
from registry.gates.gate_set import DEFAULT, GateSet, gate_set_of
from registry.names import no_such_number
from registry.queries import require_model
from registry.records import Event, Problem
from registry.tables import GateSetRow

_RESTORE = "find out who changed the database, and restore a copy of it"

ALL_MODELS = ""
"""The model's name of a gate set for all models that have none of their own."""


@dataclass(frozen=True)
class KeptGates:
    """A gate set as the registry keeps it.

    Attributes:
        model: whose it is; empty for all models.
        number: 1, 2, … in the order of setting; 0 for the one that a registry begins with.
        gates: what is asked.
        created: when it was set; None for number 0.
        actor: who set it.
    """

    model: str
    number: int
    gates: GateSet
    created: datetime | None = None
    actor: str | None = None

    @property
    def digest(self) -> str:
        """What an event says of the set, so that the chain covers it."""
        return _digest(self.gates.model_dump(mode="json"))

    def __str__(self) -> str:
        whose = f"of {self.model}" if self.model else "for all models"
        return f"gate set {self.number} {whose}"


def current_gates(connection: Connection, model: str) -> KeptGates:
    """The gates that a release of the model must pass: its own, or those for all models."""
    for whose in dict.fromkeys((model, ALL_MODELS)):
        if kept := _kept(connection, whose):
            return kept[-1]
    return KeptGates(ALL_MODELS, 0, DEFAULT)


def numbered_gates(connection: Connection, model: str, number: int) -> KeptGates:
    """One gate set of a model, or of all models.

    Raises:
        NotFound: there is none of this number.
    """
    kept = [KeptGates(ALL_MODELS, 0, DEFAULT)] if model == ALL_MODELS else []
    kept += _kept(connection, model)
    found = next((one for one in kept if one.number == number), None)
    if found is None:
        of = f" of model {model!r}" if model else " for all models"
        raise no_such_number("gate set", number, [one.number for one in kept], of=of)
    return found


def insert_gates(connection: Connection, model: str, gates: GateSet, actor: str) -> KeptGates:
    """Keeps a gate set, which holds from now on."""
    kept = _kept(connection, model)
    now = datetime.now(UTC)
    new = KeptGates(model, kept[-1].number + 1 if kept else 1, gates, now, actor)
    connection.execute(
        insert(GateSetRow).values(
            model=model,
            number=new.number,
            created=now,
            actor=actor,
            content=gates.model_dump(mode="json"),
        )
    )
    return new


def read_gates(engine: Engine, model: str | None, number: int | None) -> KeptGates:
    """The gates of a model, or of all models; the newest, or those of a number.

    Raises:
        NotFound: there is no such model, or it has no set of this number.
    """
    with reading(engine) as connection:
        if model is not None:
            require_model(connection, model)
        if number is None:
            return current_gates(connection, model or ALL_MODELS)
        return numbered_gates(connection, model or ALL_MODELS, number)


def change_gates(engine: Engine, gates: GateSet, model: str | None, note: Note) -> Event | None:
    """Asks other gates from now on, of a model or of all models; None where these are asked already.

    Raises:
        NotFound: there is no such model.
        ReleaseRefused: there is no reason.
    """
    if note.reason is None:
        raise ReleaseRefused("changing the gates needs a reason, which history keeps; add --reason TEXT")
    with writing(engine) as connection:
        if model is not None:
            require_model(connection, model)
        before = current_gates(connection, model or ALL_MODELS)
        if (before.model, before.gates) == (model or ALL_MODELS, gates) and before.number > 0:
            return None
        after = insert_gates(connection, model or ALL_MODELS, gates, note.actor)
        details = {"before": _named(before), "after": _named(after)}
        return insert_event(connection, "gates-changed", after.model, note, details=details)


def gate_set_problems(connection: Connection, events: Iterable[Mapping[str, Any]]) -> Iterator[Problem]:
    """Where the gate sets are not those that the events, as rows, say were set."""
    said = {}
    for event in events:
        after = (event["details"] or {}).get("after") if event["kind"] == "gates-changed" else None
        if after is not None:
            said[after["model"], after["number"]] = (event["id"], after["digest"])
    query = select(GateSetRow.model, GateSetRow.number, GateSetRow.content)
    held = {(row.model, row.number): _digest(row.content) for row in connection.execute(query)}
    for model, number in sorted(held.keys() | said.keys()):
        about = f"gate set {number} {f'of {model}' if model else 'for all models'}"
        event, digest = said.get((model, number), (None, None))
        if event is None:
            yield Problem(about, f"no event tells that it was set; {_RESTORE}")
        elif (model, number) not in held:
            yield Problem(about, f"event {event} tells of it and it is gone; {_RESTORE}")
        elif held[model, number] != digest:
            yield Problem(about, f"it is not the one that event {event} tells of; {_RESTORE}")


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode())


def _named(kept: KeptGates) -> dict[str, str | int]:
    return {"model": kept.model, "number": kept.number, "digest": kept.digest}


def _kept(connection: Connection, model: str) -> list[KeptGates]:
    query = select(*GateSetRow.__table__.columns).where(GateSetRow.model == model).order_by(GateSetRow.number)
    return [
        KeptGates(
            row.model,
            row.number,
            gate_set_of(row.content, f"gate set {row.number} in the database"),
            row.created,
            row.actor,
        )
        for row in connection.execute(query)
    ]
