import hashlib
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from registry.errors import InvalidName, KeyEnded, NotFound
from registry.keys import key_digest
from registry.records import SCOPES, ApiKey

pytestmark = pytest.mark.sqlite

DAY = timedelta(days=1)


def everything_on_disk(places):
    kept = "".join(row for rows in places.content().values() for row in rows).encode()
    return kept + b"".join(path.read_bytes() for path in places.store.parent.rglob("*") if path.is_file())


def test_a_secret_is_given_once_and_kept_nowhere(registry, places):
    key, secret = registry.create_key("ward 3")
    assert re.fullmatch(rf"dfk_{key.id}_[A-Za-z0-9_-]{{43}}", secret)
    assert key.sha256 == f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}" == key_digest(secret)
    assert registry.keys() == (key,)
    stored = everything_on_disk(places)
    assert key.sha256.encode() in stored
    assert secret.encode() not in stored
    assert secret.rpartition(f"{key.id}_")[2].encode() not in stored


def test_a_revoked_key_stays_revoked(registry):
    first, _ = registry.create_key("first")
    second, _ = registry.create_key("second")
    revoked = registry.revoke_key(first.id)
    assert revoked.revoked >= first.created
    assert registry.revoke_key(first.id) == revoked
    assert registry.keys() == (revoked, second)


def test_a_key_may_do_everything_for_ever_unless_said_otherwise(registry):
    key, _ = registry.create_key("ward")
    assert (key.scopes, key.expires, key.per_minute, key.replaces) == (SCOPES, None, None, None)


def test_what_was_said_of_a_key_is_kept_and_told(registry):
    before = datetime.now(UTC)
    key, secret = registry.create_key("app", scopes=["read", "diagnose", "read"], expires=DAY, per_minute=7)
    assert (key.scopes, key.per_minute) == (("diagnose", "read"), 7)
    assert before + DAY <= key.expires <= datetime.now(UTC) + DAY
    assert registry.keys() == (key,)
    (event,) = registry.audit()
    told = {"scopes": ["diagnose", "read"], "per_minute": 7, "replaces": None}
    assert told.items() <= event["details"].items()
    assert event["details"]["expires"] == key.expires.isoformat(timespec="microseconds")
    assert secret not in json.dumps(event)
    assert registry.verify() == ()


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"scopes": []}, "allowed are diagnose, outcome, read, operate"),
        ({"scopes": ["reed"]}, "did you mean `read`"),
        ({"scopes": ["read", ""]}, "there is no scope ''"),
        ({"expires": timedelta(0)}, "0 days"),
        ({"expires": -DAY}, "-1 days"),
        ({"expires": 40000 * DAY}, "at most 36500"),
        ({"expires": timedelta.max}, "at most 36500"),
        ({"per_minute": 0}, "0 requests a minute"),
        ({"per_minute": -1}, "from 1 to"),
        ({"per_minute": 10**9}, "from 1 to"),
    ],
)
def test_limits_that_cannot_be_are_refused(registry, said, part):
    with pytest.raises(InvalidName, match=re.escape(part)):
        registry.create_key("ward", **said)
    assert registry.keys() == ()


@pytest.mark.parametrize(
    ("revoked", "expires", "good"),
    [
        (None, None, True),
        (None, 1, True),
        (None, 0, False),
        (None, -1, False),
        (-1, None, False),
        (-1, 1, False),
    ],
)
def test_a_key_is_good_until_it_is_revoked_or_its_time_is_over(revoked, expires, good):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    times = [None if days is None else now + days * DAY for days in (revoked, expires)]
    key = ApiKey("a", "a", "sha256:0", now, times[0], expires=times[1])
    assert key.good(now) == good
    assert key.expired(now) == (expires is not None and expires <= 0)


def test_a_rotated_key_has_a_successor_like_it_and_lasts_for_the_grace(registry):
    old, first = registry.create_key("app", scopes=["diagnose"], expires=30 * DAY, per_minute=7)
    other, _ = registry.create_key("other")
    began = datetime.now(UTC)
    done = registry.rotate_key(old.id, grace=2 * DAY)
    ended = datetime.now(UTC)
    key = done.key
    assert key.id != old.id
    assert done.secret != first
    assert key.sha256 == key_digest(done.secret)
    assert (key.name, key.scopes, key.per_minute, key.replaces) == ("app", ("diagnose",), 7, old.id)
    assert key.expires - key.created == 30 * DAY  # as long as the old one was to be
    assert began + 2 * DAY <= done.old.expires <= ended + 2 * DAY
    assert registry.keys() == (done.old, other, key)
    made, rotated = registry.audit()[-2:]
    assert [made["kind"], rotated["kind"]] == ["key-created", "key-rotated"]
    assert made["details"]["replaces"] == rotated["details"]["id"] == old.id
    assert rotated["details"]["by"] == key.id
    assert rotated["details"]["expires"] == done.old.expires.isoformat(timespec="microseconds")
    assert done.secret not in json.dumps([made, rotated])
    assert registry.verify() == ()


def test_rotating_never_makes_a_key_last_longer(registry):
    old, _ = registry.create_key("app", expires=timedelta(hours=1))
    assert registry.rotate_key(old.id).old.expires == old.expires


def test_a_grace_of_nothing_ends_the_old_key_at_once(registry):
    old, _ = registry.create_key("app")
    done = registry.rotate_key(old.id, grace=timedelta(0))
    assert not done.old.good(datetime.now(UTC))
    assert done.key.expires is None


def test_a_key_that_is_over_is_not_rotated(registry):
    revoked, _ = registry.create_key("revoked")
    registry.revoke_key(revoked.id)
    gone, _ = registry.create_key("gone", expires=timedelta(microseconds=1))
    rotated, _ = registry.create_key("rotated")
    after = registry.rotate_key(rotated.id).key
    before = registry.keys(), registry.audit()
    for key, part in ((revoked, "was revoked"), (gone, "has expired"), (rotated, f"rotate {after.id}")):
        with pytest.raises(KeyEnded, match=part):
            registry.rotate_key(key.id)
    with pytest.raises(NotFound):
        registry.rotate_key("abc")
    for grace in (-DAY, timedelta.max):
        with pytest.raises(InvalidName, match="grace"):
            registry.rotate_key(after.id, grace=grace)
    assert (registry.keys(), registry.audit()) == before
    assert registry.rotate_key(after.id).key.replaces == after.id


def test_revoking_a_rotated_key_leaves_its_successor(registry):
    old, _ = registry.create_key("app")
    done = registry.rotate_key(old.id)
    registry.revoke_key(old.id)
    first, second = registry.keys()
    assert not first.good(datetime.now(UTC))
    assert second == done.key
    assert second.good(datetime.now(UTC))
    assert registry.verify() == ()
