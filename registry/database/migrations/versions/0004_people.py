"""A registry has an id, people with keys, withdrawn versions and tags; gates may be of one alias."""

import secrets
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables, and give this registry its id."""
    op.create_table(
        "registry_identity",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
    )
    op.create_table(
        "people",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("fingerprint", sa.String(71), nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("roles", sa.JSON, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("revoked", sa.String(32)),
        sa.UniqueConstraint("fingerprint", name="uq_people_fingerprint"),
    )
    op.create_table(
        "withdrawals",
        sa.Column(
            "version_id",
            sa.Integer,
            sa.ForeignKey("versions.id", name="fk_withdrawals_version"),
            primary_key=True,
        ),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
    )
    op.create_table(
        "tags",
        sa.Column(
            "version_id", sa.Integer, sa.ForeignKey("versions.id", name="fk_tags_version"), primary_key=True
        ),
        sa.Column("tag", sa.String(100), primary_key=True),
    )
    # Not in a batch: SQLite would make the table anew, without its guards.
    op.add_column("gate_sets", sa.Column("alias", sa.String(100), nullable=False, server_default=""))
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    op.get_bind().execute(
        sa.text("INSERT INTO registry_identity (id, identity, created) VALUES (1, :identity, :created)"),
        {"identity": secrets.token_hex(16), "created": now},
    )
