"""Guards anew, of more tables and against replacing rows; see `registry.database.guards`."""

from alembic import op

from registry.database.guards import install_guards

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make every guard, in the place of those that are there."""
    install_guards(op.get_bind())
