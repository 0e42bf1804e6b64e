"""The first tables: versions, releases and their members, aliases, events, keys."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "schema_changes",
        sa.Column("revision", sa.String(32), primary_key=True),
        sa.Column("code_version", sa.String(64), nullable=False),
        sa.Column("time", sa.String(32), nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("model", sa.String(100), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("model_digest", sa.String(71), nullable=False),
        sa.Column("subgroup", sa.Text, nullable=False),
        sa.Column("scale", sa.Text),
        sa.Column("tones", sa.JSON, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.UniqueConstraint("model", "number", name="uq_versions_model_number"),
        sa.UniqueConstraint("model", "digest", name="uq_versions_model_digest"),
    )
    op.create_table(
        "releases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("model", sa.String(100), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
    )
    op.create_table(
        "release_members",
        sa.Column(
            "release_id",
            sa.Integer,
            sa.ForeignKey("releases.id", name="fk_members_release"),
            primary_key=True,
        ),
        sa.Column("subgroup", sa.Text, primary_key=True),
        sa.Column(
            "version_id", sa.Integer, sa.ForeignKey("versions.id", name="fk_members_version"), nullable=False
        ),
    )
    op.create_table(
        "aliases",
        sa.Column("model", sa.String(100), primary_key=True),
        sa.Column("alias", sa.String(100), primary_key=True),
        sa.Column(
            "release_id", sa.Integer, sa.ForeignKey("releases.id", name="fk_aliases_release"), nullable=False
        ),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time", sa.String(32), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("model", sa.String(100), nullable=False),
        sa.Column("alias", sa.String(100)),
        sa.Column("versions", sa.JSON, nullable=False),
        _reference("release_id", "releases", "fk_events_release"),
        _reference("before_id", "releases", "fk_events_before"),
        sa.Column("reason", sa.Text),
        sa.Column("gates", sa.JSON),
        sa.Column("overridden", sa.Boolean, nullable=False),
    )
    op.create_index("ix_events_model_alias", "events", ["model", "alias"])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("sha256", sa.String(71), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("revoked", sa.String(32)),
        sa.UniqueConstraint("sha256", name="uq_api_keys_sha256"),
    )


def _reference(column: str, table: str, name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(column, sa.Integer, sa.ForeignKey(f"{table}.id", name=name), **options)
