"""Keys have scopes, may expire, may have a rate of their own, and are rotated."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ALL = '["diagnose", "read", "operate"]'


def upgrade() -> None:
    """Add the columns; the keys that are there may do everything, as before."""
    with op.batch_alter_table("api_keys") as keys:
        keys.add_column(sa.Column("scopes", sa.JSON))
        keys.add_column(sa.Column("expires", sa.String(32)))
        keys.add_column(sa.Column("per_minute", sa.Integer))
        keys.add_column(sa.Column("replaces", sa.String(32)))
    op.execute(f"UPDATE api_keys SET scopes = '{ALL}'")
    with op.batch_alter_table("api_keys") as keys:
        keys.alter_column("scopes", existing_type=sa.JSON, nullable=False)
