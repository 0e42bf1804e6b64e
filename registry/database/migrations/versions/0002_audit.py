"""The audit chain: every event holds the hash of the one before; gate sets and signatures; guards."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from registry.database.hash_chain import GENESIS, event_hash

revision = "0002"
down_revision = "0001"

GUARDED = ("events", "versions", "releases", "release_members", "gate_sets", "signatures")


def upgrade() -> None:
    """Make the new tables and columns, chain the events that are there, and guard what never changes."""
    op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(71), nullable=False),
    )
    op.create_table(
        "gate_sets",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("model", sa.String(100), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
        sa.UniqueConstraint("model", "number", name="uq_gate_sets_model_number"),
    )
    op.create_table(
        "signatures",
        sa.Column(
            "version_id",
            sa.Integer,
            sa.ForeignKey("versions.id", name="fk_signatures_version"),
            primary_key=True,
        ),
        sa.Column("object", sa.String(71), primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
    )
    with op.batch_alter_table("events") as events:
        events.alter_column("kind", existing_type=sa.String(16), type_=sa.String(32), existing_nullable=False)
        events.add_column(sa.Column("host", sa.Text))
        events.add_column(sa.Column("details", sa.JSON))
        events.add_column(sa.Column("previous", sa.String(71)))
        events.add_column(sa.Column("hash", sa.String(71)))
    _chain(op.get_bind())
    with op.batch_alter_table("events") as events:
        events.alter_column("previous", existing_type=sa.String(71), nullable=False)
        events.alter_column("hash", existing_type=sa.String(71), nullable=False)
        events.create_unique_constraint("uq_events_hash", ["hash"])
    _guard(op.get_bind())


def _chain(connection: sa.Connection) -> None:
    """Chain the events, completed by what the tables hold now; then tell of the keys that are there."""
    events = sa.table("events", *map(sa.column, _EVENT))
    length, last, number = 0, GENESIS, 0
    for row in connection.execute(sa.select(events).order_by(events.c.id)).mappings().all():
        facts = {name: _decoded(name, row[name]) for name in _EVENT if name not in ("previous", "hash")}
        facts |= {"details": _details(connection, facts), "previous": last}
        length, last, number = length + 1, event_hash(facts), row["id"]
        stored = {"details": _encoded(facts["details"]), "previous": facts["previous"], "hash": last}
        connection.execute(_STORE, {"id": number, **stored})
    for facts in _keys(connection):
        number += 1
        facts |= {"id": number, "previous": last}
        length, last = length + 1, event_hash(facts)
        stored = {name: _encoded(fact) if name in _JSON else fact for name, fact in facts.items()}
        connection.execute(_INSERT, {**stored, "hash": last})
    connection.execute(
        sa.text("INSERT INTO audit_head (id, events, hash) VALUES (1, :events, :hash)"),
        {"events": length, "hash": last},
    )


_JSON = ("versions", "gates", "details")
_EVENT = (
    "id", "time", "actor", "kind", "model", "alias", "versions", "release_id", "before_id", "reason", "gates",
    "overridden", "host", "details", "previous", "hash",
)  # fmt: skip
_STORE = sa.text("UPDATE events SET details = :details, previous = :previous, hash = :hash WHERE id = :id")
_INSERT = sa.text(
    f"INSERT INTO events ({', '.join(_EVENT)}) VALUES ({', '.join(f':{one}' for one in _EVENT)})"
)


def _decoded(name: str, stored: Any) -> Any:
    """What a column says; SQLite gives JSON as text and truth as a number."""
    if name == "overridden":
        return bool(stored)
    return json.loads(stored) if name in _JSON and isinstance(stored, str) else stored


def _encoded(fact: Any) -> str | None:
    return None if fact is None else json.dumps(fact)


def _details(connection: sa.Connection, event: dict[str, Any]) -> dict[str, Any] | None:
    if event["kind"] == "added":
        rows = connection.execute(_VERSIONS, {"model": event["model"]}).mappings()
        told = [{**row, "tones": _listed(row["tones"])} for row in rows if row["number"] in event["versions"]]
        return {"versions": told}
    if event["release_id"] is not None:
        rows = connection.execute(_MEMBERS, {"release": event["release_id"]}).mappings()
        made = connection.scalar(_MADE, {"release": event["release_id"]})
        return {"members": [dict(row) for row in rows], "made": made}
    return None


_VERSIONS = sa.text(
    "SELECT number, digest, model_digest, subgroup, scale, tones, created FROM versions "
    "WHERE model = :model ORDER BY number"
)
_MEMBERS = sa.text(
    "SELECT v.number, v.digest, m.subgroup FROM release_members m JOIN versions v ON v.id = m.version_id "
    "WHERE m.release_id = :release ORDER BY v.number"
)
_MADE = sa.text("SELECT created FROM releases WHERE id = :release")


def _listed(tones: Any) -> Any:
    return json.loads(tones) if isinstance(tones, str) else tones


def _keys(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """The events that tell of keys made before events told of keys."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    query = sa.text("SELECT id, name, sha256, created, revoked FROM api_keys ORDER BY created, id")
    for key in connection.execute(query).mappings().all():
        times = {"created": key["created"], "revoked": key["revoked"]}
        for kind, at in (("key-created", "created"), ("key-revoked", "revoked")):
            if times[at] is None:
                continue
            details = {"id": key["id"], "name": key["name"], "sha256": key["sha256"], at: times[at]}
            yield {
                **dict.fromkeys(_EVENT[:-1]),
                **{"time": now, "actor": "dermfed-registry upgrade", "kind": kind, "model": ""},
                **{"versions": [], "overridden": False, "details": details},
                "reason": f"at {times[at]}, before events told of keys",
            }


def _guard(connection: sa.Connection) -> None:
    """Refuse changes to rows that never change, whoever asks."""
    if connection.dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION dermfed_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME; END $$"
        )
    for table in GUARDED:
        if connection.dialect.name == "postgresql":
            head = f"CREATE TRIGGER guard_{table}_truncate BEFORE TRUNCATE ON {table}"
            op.execute(f"{head} EXECUTE FUNCTION dermfed_refuse()")
        for action in ("UPDATE", "DELETE"):
            head = f"CREATE TRIGGER guard_{table}_{action.lower()} BEFORE {action} ON {table}"
            if connection.dialect.name == "postgresql":
                op.execute(f"{head} FOR EACH ROW EXECUTE FUNCTION dermfed_refuse()")
            else:
                op.execute(f"{head} BEGIN SELECT RAISE(ABORT, 'rows of {table} never change'); END")
