"""The rows of versions and releases as events record them, so that the hash chain covers them too."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, String, select, type_coerce

from registry.database.tables import MemberRow, ReleaseRow, VersionRow

_CREATED = type_coerce(VersionRow.created, String).label("created")  # as it is stored


def version_facts(
    connection: Connection, model: str, numbers: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    """The rows of these versions of a model, or of all, in the order of their numbers."""
    query = (
        select(
            VersionRow.number,
            VersionRow.digest,
            VersionRow.model_digest,
            VersionRow.subgroup,
            VersionRow.scale,
            VersionRow.tones,
            _CREATED,
        )
        .where(VersionRow.model == model)
        .order_by(VersionRow.number)
    )
    if numbers is not None:
        query = query.where(VersionRow.number.in_(numbers))
    return [dict(row._mapping) for row in connection.execute(query)]


def release_time(connection: Connection, release: int) -> str | None:
    """When the release was made, as it is stored; None where there is no such release."""
    query = select(type_coerce(ReleaseRow.created, String)).where(ReleaseRow.id == release)
    return connection.scalar(query)


def member_facts(connection: Connection, release: int) -> list[dict[str, Any]]:
    """The versions of a release and whom each is for, in the order of their numbers."""
    query = (
        select(VersionRow.number, VersionRow.digest, MemberRow.subgroup)
        .join(MemberRow, MemberRow.version_id == VersionRow.id)
        .where(MemberRow.release_id == release)
        .order_by(VersionRow.number)
    )
    return [dict(row._mapping) for row in connection.execute(query)]
