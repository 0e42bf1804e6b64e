"""Approvals: which people have approved exactly an action, and whether they are as many as gates ask for.

A gate set with the gate `approvals` asks for approvals of a release. It asks for the same of whatever would
be a way around that: an override, another gate set in its place, and another person. An action is named by a
digest of all that it would do and of the state that it would change: an approval is good for that alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from registry.bundle.manifest.schema import sha256
from registry.database.action import registry_id
from registry.database.changes import AuditContext, insert_event
from registry.database.people import active_people
from registry.database.queries import events_since
from registry.database.tables import GateSetRow
from registry.errors import ApprovalsMissing, NothingToApprove
from registry.gate_report import set_title
from registry.gates.approvals import ApprovalsGate
from registry.gates.narrowest import ALL_ALIASES, ALL_MODELS, narrowest_first
from registry.people.signed_events import SignedBy, who_signed
from registry.records import Event

Place = tuple[str, str]
"""Of which model and under which alias a gate set is asked; either may be of all."""


@dataclass(frozen=True)
class Approvals:
    """Who has approved an action.

    Attributes:
        signed: the people whose approval is signed with a key that holds, each once.
        unsigned: names of others, as the operating system gave them; they count for nothing.
    """

    signed: tuple[SignedBy, ...] = ()
    unsigned: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """The names of those who signed, by the fingerprints of their keys."""
        return {one.fingerprint: one.name for one in self.signed}


@dataclass(frozen=True)
class Asked:
    """Approvals that a gate set asks for.

    Attributes:
        title: the gate set, as messages call it.
        gate: how many people, and with which keys.
    """

    title: str
    gate: ApprovalsGate


def action_digest(facts: Mapping[str, Any]) -> str:
    """The digest of an action: `sha256:` and 64 hex digits, of the canonical JSON of all that it would do."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode())


def approvals_of(
    connection: Connection,
    action: str,
    model: str,
    alias: str | None,
    *,
    since: int = 0,
    before: int | None = None,
) -> Approvals:
    """Who has approved the action of this digest.

    Args:
        connection: the database.
        action: the digest.
        model: of which model the action is; empty for all.
        alias: of which alias; None for all.
        since: the event after which an approval has to be signed.
        before: the event before which approvals are looked for; None for all.
    """
    events = [
        event
        for event in events_since(connection, model, alias, since, kinds=("approved",))
        if (before is None or event.id < before) and (event.details or {}).get("candidate") == action
    ]
    people = {key: one for key, one in active_people(connection).items() if "approver" in one.roles}
    registry = registry_id(connection)
    signed = {event.id: who_signed(event, registry, people, since=since) for event in events}
    return Approvals(
        tuple(dict.fromkeys(one for one in signed.values() if one is not None)),
        tuple(dict.fromkeys(event.actor for event in events if signed[event.id] is None)),
    )


def insert_approval(
    connection: Connection,
    context: AuditContext,
    found: Approvals,
    what: str,
    model: str,
    alias: str | None,
    details: Mapping[str, Any],
    versions: Iterable[int] = (),
) -> Event:
    """Records that a person approves an action, whose digest is `candidate` in the details.

    Raises:
        NothingToApprove: the same person has approved it before, as `found` says.
        PersonRefused: an approver has to sign it.
    """
    key = "" if context.signatory is None else context.signatory.fingerprint
    if key in found.names if key else context.actor in found.unsigned:
        raise NothingToApprove(
            f"{context.actor} has approved {what} already; two approvals by one person are one"
        )
    return insert_event(
        connection, "approved", model, context, versions=list(versions), alias=alias, details=details
    )


def require_approved(
    asked: Iterable[Asked], found: Approvals, context: AuditContext, what: str, command: str
) -> dict[str, list[str]]:
    """Checks that as many people other than the one who acts have approved an action as gate sets ask for.

    Args:
        asked: by the gate sets in force; none where none asks for approvals.
        found: who has approved the action.
        context: who acts.
        what: the action, in words.
        command: the command that approves it.

    Returns:
        What the event of the action says of it: the names, where any gate set asks.

    Raises:
        ApprovalsMissing: they are fewer.
    """
    acting = "" if context.signatory is None else context.signatory.fingerprint
    names: set[str] = set()
    for one in asked:
        others = one.gate.others(found.names, acting)
        if len(others) < one.gate.people:
            told = f"that of {', '.join(others)}" if others else "none"
            raise ApprovalsMissing(
                f"{what} takes the approval of {_people(one.gate)} other than {context.actor}, since "
                f"{one.title} asks for approvals, and has {told}. Ask an approver for `{command} --key FILE`"
            )
        names.update(others)
    return {"approved_by": sorted(names)} if names else {}


def require_approvers(connection: Connection, gate: ApprovalsGate | None, context: AuditContext) -> None:
    """Checks that the registry knows as many approvers as a gate set would ask for, before it is in force.

    Otherwise nobody could ever change it, or add the people who are missing.

    Raises:
        ApprovalsMissing: it knows fewer.
    """
    if gate is None:
        return
    acting = "" if context.signatory is None else context.signatory.fingerprint
    known = {key: one.name for key, one in active_people(connection).items() if "approver" in one.roles}
    if len(others := gate.others(known, acting)) < gate.people:
        told = f"{len(others)} ({', '.join(others)})" if others else "none"
        raise ApprovalsMissing(
            f"this gate set asks for the approval of {_people(gate)} other than {context.actor}, and the "
            f"registry knows {told} whose approval counts. Add them with `dermfed-registry people add` first"
        )


def approvals_gate(content: Any) -> ApprovalsGate | None:
    """The gate `approvals` of a gate set as the database holds it, whatever other gates it has."""
    found = next((one for one in content["gates"] if one["name"] == "approvals"), None)
    return None if found is None else ApprovalsGate.model_validate_json(json.dumps(found))


def newest_sets(connection: Connection) -> dict[Place, Row[Any]]:
    """The newest gate set of each place that has one."""
    query = select(*GateSetRow.__table__.columns).order_by(GateSetRow.number)
    return {(row.model, row.alias): row for row in connection.execute(query)}


def sets_in_force(connection: Connection, replaced_by: Place | None = None) -> dict[Place, Row[Any] | None]:
    """The gate sets that are asked of any model under any alias, by place.

    Args:
        connection: the database.
        replaced_by: only those in whose place a set of this place would be asked somewhere.

    Returns:
        Each, or None for the one that a registry begins with.
    """
    newest = newest_sets(connection)
    found: dict[Place, Row[Any] | None] = {}
    for model, alias in _cases(newest, replaced_by or (ALL_MODELS, ALL_ALIASES)):
        order = narrowest_first(model, alias)
        place = next((one for one in order if one in newest), None)
        if replaced_by is None or place is None or order.index(replaced_by) <= order.index(place):
            found[place or (ALL_MODELS, ALL_ALIASES)] = None if place is None else newest[place]
    return found


def asked_by(sets: Mapping[Place, Row[Any] | None]) -> list[Asked]:
    """The approvals that these gate sets ask for."""
    rows = [row for row in sets.values() if row is not None]
    found = [(row, approvals_gate(row.content)) for row in rows]
    return [
        Asked(f"gate {set_title(row.model, row.number, row.alias)}", gate)
        for row, gate in found
        if gate is not None
    ]


def _people(gate: ApprovalsGate) -> str:
    return "1 person" if gate.people == 1 else f"{gate.people} people"


def _cases(newest: Iterable[Place], place: Place) -> Iterator[Place]:
    """Each model and alias with sets of its own, and one of each without any, which the place covers."""
    model, alias = place
    for one in [model] if model else sorted({ALL_MODELS, *(own for own, _ in newest)}):
        for under in [alias] if alias else sorted({ALL_ALIASES, *(own for _, own in newest)}):
            yield one, under
