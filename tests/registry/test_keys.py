import hashlib
import re

import pytest

from registry.errors import InvalidName, NotFound
from registry.keys import key_digest


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


def test_keys_differ(registry):
    made = [registry.create_key("ward")[1] for _ in range(20)]
    assert len(set(made)) == 20
    assert len(registry.keys()) == 20


def test_a_revoked_key_stays_revoked(registry):
    first, _ = registry.create_key("first")
    second, _ = registry.create_key("second")
    revoked = registry.revoke_key(first.id)
    assert revoked.revoked >= first.created
    assert registry.revoke_key(first.id) == revoked
    assert registry.keys() == (revoked, second)


def test_an_unknown_key_is_told_the_nearest(registry):
    with pytest.raises(NotFound, match="no key yet"):
        registry.revoke_key("abc")
    key, _ = registry.create_key("ward")
    with pytest.raises(NotFound, match=key.id):
        registry.revoke_key(key.id[:-1])


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101])
def test_a_key_has_a_name_that_can_be_read(registry, name):
    with pytest.raises(InvalidName):
        registry.create_key(name)
    assert registry.keys() == ()


def test_any_text_has_a_digest():
    assert key_digest("\udcff") != key_digest("")
