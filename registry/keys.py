"""API keys: creating, rotating and revoking them.

A secret is shown once, and only its sha256 is stored. A secret is 256 random bits, so one fast hash is
enough: there is nothing to guess from.

A key may do what its scopes say:

- `diagnose`: send pictures and get diagnoses;
- `read`: see what is served, and its model cards;
- `operate`: see the service's metrics and the operator's view.

A rotated key and the one in its place are both good for a while, so that its users can change over
without a refused request.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Engine

from registry.bundle.manifest import sha256
from registry.database.changes import AuditContext, end_key, insert_key
from registry.database.connection import writing
from registry.database.queries import all_keys
from registry.errors import InvalidName, KeyEnded
from registry.names import choose, not_found
from registry.records import SCOPES, ApiKey, Scope

PREFIX = "dfk"


def make_secret() -> tuple[str, str]:
    """Makes the id of a new key, 12 hex digits, and its secret `dfk_<id>_<43 characters>`."""
    key = secrets.token_hex(6)
    return key, f"{PREFIX}_{key}_{secrets.token_urlsafe(32)}"


def key_digest(secret: str) -> str:
    """The digest of a secret, which the registry stores: `sha256:` and 64 hex digits."""
    return sha256(secret.encode("utf-8", "surrogatepass"))


LONGEST: Final = timedelta(days=36500)
"""The longest lifetime of a key."""

MOST_PER_MINUTE: Final = 1_000_000


@dataclass(frozen=True)
class Rotated:
    """The result of a rotation.

    Attributes:
        old: the key that was rotated, with when it expires.
        key: the key in its place.
        secret: the new key's secret, which is kept nowhere.
    """

    old: ApiKey
    key: ApiKey
    secret: str


def create_key(
    engine: Engine,
    context: AuditContext,
    name: str,
    scopes: Iterable[str],
    lifetime: timedelta | None,
    per_minute: int | None,
) -> tuple[ApiKey, str]:
    """Creates a key, with each scope once in the order of `SCOPES`; returns it and its secret.

    Raises:
        InvalidName: there is no such scope or none is given, or a time or a rate cannot be.
    """
    given = choose("scope", "a key", scopes, SCOPES)
    if lifetime is not None and not timedelta(0) < lifetime <= LONGEST:
        raise InvalidName(
            f"a key cannot be good for {lifetime / timedelta(days=1):g} days; "
            f"it is more than 0 and at most {LONGEST.days}"
        )
    if per_minute is not None and not 1 <= per_minute <= MOST_PER_MINUTE:
        raise InvalidName(
            f"{per_minute} requests a minute cannot be; it is a whole number from 1 to {MOST_PER_MINUTE}"
        )
    now = datetime.now(UTC)
    key, secret = _make(name, given, now, None if lifetime is None else now + lifetime, per_minute)
    with writing(engine) as connection:
        insert_key(connection, key, context)
    return key, secret


def rotate_key(engine: Engine, context: AuditContext, id: str, grace: timedelta) -> Rotated:
    """Replaces a key by a new one of the same name and limits; the old one expires after the grace.

    It expires earlier if it was to. The new key is valid for as long as the old one was to be.

    Raises:
        NotFound: there is no such key.
        KeyEnded: it was revoked, has expired, or was rotated already.
        InvalidName: the grace is negative or too long.
    """
    if not timedelta(0) <= grace <= LONGEST:
        raise InvalidName(
            f"a grace of {grace / timedelta(hours=1):g} hours cannot be; it is 0 to {LONGEST.days * 24}"
        )
    with writing(engine) as connection:
        now = datetime.now(UTC)
        old = _known(connection, id)
        _require_good(old, all_keys(connection), now)
        until = None if old.expires is None else now + (old.expires - old.created)
        key, secret = _make(old.name, old.scopes, now, until, old.per_minute, old.id)
        insert_key(connection, key, context)
        over = now + grace if old.expires is None else min(now + grace, old.expires)
        end_key(connection, old, "expires", over, context, by=key.id)
        return Rotated(_known(connection, id), key, secret)


def revoke_key(engine: Engine, context: AuditContext, id: str) -> ApiKey:
    """Revokes a key, and returns it; one that was revoked before keeps its time.

    Raises:
        NotFound: there is no such key.
    """
    with writing(engine) as connection:
        key = _known(connection, id)
        if key.revoked is None:
            end_key(connection, key, "revoked", datetime.now(UTC), context)
        return _known(connection, id)


def _make(
    name: str,
    scopes: tuple[Scope, ...],
    now: datetime,
    expires: datetime | None,
    per_minute: int | None,
    replaces: str | None = None,
) -> tuple[ApiKey, str]:
    id, secret = make_secret()
    return ApiKey(id, name, key_digest(secret), now, None, scopes, expires, per_minute, replaces), secret


def _known(connection: Connection, id: str) -> ApiKey:
    known = {key.id: key for key in all_keys(connection)}
    if id not in known:
        raise not_found("key", id, known)
    return known[id]


def _require_good(key: ApiKey, keys: Iterable[ApiKey], now: datetime) -> None:
    after = next((one for one in keys if one.replaces == key.id), None)
    if after is not None:
        raise KeyEnded(f"the key {key.id} was rotated already; rotate {after.id}, which is in its place")
    if not key.good(now):
        how = "was revoked" if key.revoked is not None else "has expired"
        raise KeyEnded(f"the key {key.id} {how}; make another with `dermfed-registry keys add {key.name!r}`")
