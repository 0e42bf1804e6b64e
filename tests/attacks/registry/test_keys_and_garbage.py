"""What takes an operator beside promoting: API keys, and removing from the store."""

from datetime import timedelta

import pytest

from registry.errors import PersonRefused

pytestmark = pytest.mark.both_databases

MODEL = "skin-lesion"


def test_keys_and_removing_take_an_operator_once_people_are_known(registry, person, bundle):
    key, _ = registry.create_key("ward")  # before anybody is known, as ever
    olga = person("olga")
    olga.add([bundle()])
    nobodys = registry._store.put(b"nobody's")
    for who in (registry, person("udo", "uploader")):
        for act in (
            lambda who=who: who.create_key("evil"),
            lambda who=who: who.rotate_key(key.id),
            lambda who=who: who.revoke_key(key.id),
            lambda who=who: who.collect(older_than=timedelta(0)),
        ):
            with pytest.raises(PersonRefused, match="operator"):
                act()
    assert registry._store.has(nobodys)  # refused before anything is removed
    assert len(registry.keys()) == 1
    assert [one.digest for one in olga.collect(older_than=timedelta(0)).files] == [nobodys]
    olga.revoke_key(key.id)
    assert registry.audit()[-1]["details"]["signed"]["key"] == olga._signatory.fingerprint
    assert registry.verify() == ()


def test_a_key_for_a_registry_that_knows_nobody_signs_nothing_and_keeps_nobody_out(registry, key, bundle):
    registry.signed_by(key("anna")).add([bundle()])
    (event,) = registry.history(MODEL)
    assert (event.signed_with, event.actor) == (None, "tester")
    assert registry.verify() == ()
