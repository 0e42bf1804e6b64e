"""The gate sets in the database: immutable, and numbered for each model and for all models.

A set is of one model or of all, and of one alias or of all. Asked is the newest of the narrowest there is:
of the model under this alias, of the model, of all models under this alias, of all.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select

from registry.bundle.manifest import sha256
from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import acting_person, require_model
from registry.database.tables import GateSetRow
from registry.errors import NothingToApprove
from registry.gate_report import set_title
from registry.gates.gate_set import ALL_ALIASES, ALL_MODELS, DEFAULT, GateSet, gate_set_of, narrowest_first
from registry.names import check_name, no_such_number
from registry.people import (
    Action,
    action_digest,
    approvals_asked,
    approvals_gate,
    approve,
    newest_sets,
    require_approved,
    require_approvers,
)
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

    Returns None where it is in force already. Where a set in whose place it may be asked asks for approvals,
    it takes as many of exactly this change.

    Raises:
        NotFound: there is no such model.
        InvalidName: the alias cannot be one.
        ReleaseRefused: there is no reason.
        ApprovalsMissing: fewer have approved it than are asked for, or the registry knows fewer approvers
            than the new set would ask for.
    """
    context.require_reason("changing the gates")
    with writing(engine) as connection:
        acting_person(connection, "gates-changed", context.signatory)
        change = _Change.of(connection, gates, model, alias)
        if change.is_in_force:
            return None
        asked = approvals_asked(change.replaced.values())
        approved = require_approved(connection, change.action, asked, context)
        require_approvers(connection, approvals_gate(change.content), context)
        before = change.before or StoredGateSet(ALL_MODELS, 0, DEFAULT)
        replaced = DEFAULT.model_dump(mode="json") if change.before is None else change.before.content
        after = insert_gates(connection, change.model, gates, context.actor, change.alias)
        details = {"before": _named(before, replaced), "after": _named(after, change.content), **approved}
        return insert_event(connection, "gates-changed", after.model, context, alias=alias, details=details)


def approve_gates(
    engine: Engine, gates: GateSet, model: str | None, context: AuditContext, alias: str | None = None
) -> Event:
    """Records the approval of exactly this change of the gates, for another person to make.

    Raises:
        NotFound: there is no such model.
        InvalidName: the alias cannot be one.
        NothingToApprove: the set is in force already, or the same person has approved it.
    """
    with writing(engine) as connection:
        change = _Change.of(connection, gates, model, alias)
        if change.is_in_force:
            raise NothingToApprove(f"{change.action.title} asks what is asked already")
        return approve(connection, context, change.action, change.facts)


def takes_the_place_of(place: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether a set of one model and alias may be asked in place of another; empty means all."""
    overlap = all(not one or not two or one == two for one, two in zip(place, other, strict=True))
    narrower = [not part for part in place] <= [not part for part in other]  # as `narrowest_first` has them
    return overlap and narrower


@dataclass(frozen=True)
class _Change:
    """A change of the gates.

    Attributes:
        model, alias: whose set is changed, and under which alias; empty for all.
        content: the new set.
        before: the set that is asked there; None for the one that a registry begins with.
        replaced: the sets in whose place it may be asked, by model and alias.
    """

    model: str
    alias: str
    content: dict[str, Any]
    before: Row[Any] | None
    replaced: Mapping[tuple[str, str], Row[Any]]

    @classmethod
    def of(cls, connection: Connection, gates: GateSet, model: str | None, alias: str | None) -> "_Change":
        """The change that putting a set in force would be."""
        if alias is not None:
            check_name("alias", alias)
        if model is not None:
            require_model(connection, model)
        place = (model or ALL_MODELS, alias or ALL_ALIASES)
        # Not read as gates: one whose package is gone must not keep others from being asked.
        replaced = {
            other: row for other, row in newest_sets(connection).items() if takes_the_place_of(place, other)
        }
        return cls(*place, gates.model_dump(mode="json"), newest_row(connection, *place), replaced)

    @property
    def is_in_force(self) -> bool:
        """Whether exactly this is asked there already."""
        here = (self.model, self.alias, self.content)
        return self.before is not None and (self.before.model, self.before.alias, self.before.content) == here

    @property
    def facts(self) -> dict[str, Any]:
        """All that it would do, and the state that it would change."""
        return {
            "gates": gate_set_digest(self.content),
            "model": self.model,
            "alias": self.alias,
            "in_place_of": sorted([*place, row.number] for place, row in self.replaced.items()),
        }

    @property
    def action(self) -> Action:
        """The action that takes approvals."""
        whose = f"of {self.model}" if self.model else "for all models"
        title = f"this gate set {whose}{f' under {self.alias}' if self.alias else ''}"
        model = f" --model {self.model}" if self.model else ""
        alias = f" --alias {self.alias}" if self.alias else ""
        command = f"dermfed-registry gates approve FILE{model}{alias}"
        return Action(title, action_digest(self.facts), command, self.model, self.alias or None)


def gate_set_digest(content: Any) -> str:
    """The digest of a gate set: `sha256:` and 64 hex digits, of its canonical JSON."""
    return sha256(json.dumps(content, sort_keys=True).encode())


def _named(one: Row[Any] | StoredGateSet, content: Any) -> dict[str, str | int]:
    digest = gate_set_digest(content)
    named: dict[str, str | int] = {"model": one.model, "number": one.number, "digest": digest}
    return {**named, "alias": one.alias} if one.alias else named


def _rows(connection: Connection, model: str) -> list[Row[Any]]:
    """The sets of a model as the database holds them, the oldest first."""
    query = select(*GateSetRow.__table__.columns).where(GateSetRow.model == model)
    return list(connection.execute(query.order_by(GateSetRow.number)))


def newest_row(connection: Connection, model: str, alias: str) -> Row[Any] | None:
    """The set that a model is asked under an alias, of the narrowest kind; None if none is set."""
    newest = newest_sets(connection)
    return next((newest[place] for place in narrowest_first(model, alias) if place in newest), None)


def _read(row: Row[Any]) -> StoredGateSet:
    gates = gate_set_of(row.content, f"gate set {row.number} in the database")
    return StoredGateSet(row.model, row.number, gates, row.created, row.actor, row.alias)
