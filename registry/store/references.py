"""What a registry refers to: the digests that its versions, signatures and events name."""

import re

from sqlalchemy import Connection, String, cast, select

from registry.database.tables import EventRow, SignatureRow, VersionRow

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def digests_in_use(connection: Connection) -> frozenset[str]:
    """Every digest that a version, a signature or an event refers to."""
    columns = (VersionRow.digest, VersionRow.model_digest, SignatureRow.object)
    named = {digest for column in columns for digest in connection.scalars(select(column))}
    recorded = connection.scalars(select(cast(EventRow.details, String)).where(EventRow.details.is_not(None)))
    return frozenset(named.union(*(_DIGEST.findall(text) for text in recorded)))
