import hashlib

import pytest

from registry.database.tables import canonical_json, event_hash


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


def test_a_number_that_json_has_not_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})
