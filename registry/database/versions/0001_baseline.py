"""The tables, the id of this registry, and an empty chain of events.

With the first migration after this one, the tables have to be written out here as they are now.
"""

import secrets
from datetime import UTC, datetime

from alembic import op
from sqlalchemy import insert

from registry.database.tables import GENESIS, HeadRow, IdentityRow, Table

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the tables, and the rows that there are once."""
    connection = op.get_bind()
    Table.metadata.create_all(connection)
    identity = {"id": 1, "identity": secrets.token_hex(16), "created": datetime.now(UTC)}
    connection.execute(insert(IdentityRow), identity)
    connection.execute(insert(HeadRow), {"id": 1, "events": 0, "hash": GENESIS})
