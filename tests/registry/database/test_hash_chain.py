import hashlib
import json

import pytest

from registry.database.hash_chain import GENESIS, canonical_json, event_hash


def test_the_hash_is_that_of_the_text_written_by_hand():
    facts = {
        "id": 1,
        "actor": "Zoë",
        "alias": None,
        "versions": [2, 1],
        "overridden": False,
        "hash": "ignored",
    }
    text = '{"actor":"Zoë","alias":null,"id":1,"overridden":false,"versions":[2,1]}'
    assert event_hash(facts) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_the_first_event_follows_zeros():
    assert GENESIS == "sha256:" + "0" * 64


def test_the_order_of_facts_says_nothing():
    assert event_hash({"a": 1, "b": {"c": 2, "d": 3}}) == event_hash({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize("other", [{"a": True}, {"a": "1"}, {"a": 1, "b": None}, {"a": [1]}, {"b": 1}, {}])
def test_other_facts_have_another_hash(other):
    assert event_hash(other) != event_hash({"a": 1})


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-7, 1e22, -0.0, 2**53 + 1, "\u2028\ud800", "ß\x00"])
def test_what_was_read_back_has_the_same_text(value):
    text = canonical_json({"a": value})
    assert canonical_json(json.loads(text.decode("utf-8", "surrogatepass"))) == text


def test_a_number_that_json_has_not_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})
