"""Two clients derive the same key, for one session and one use; what they seal cannot be changed."""

import pytest

from training.errors import MessageError
from training.privacy.secagg.keys import Agreement, KeyPair, seal, session_of, unseal

SESSION = b"s" * 32


def test_two_sides_agree_and_nobody_else():
    one, other, third = KeyPair.new(), KeyPair.new(), KeyPair.new()
    key = Agreement(one.private).with_(other.public, SESSION, "seal")
    assert key == Agreement(other.private).with_(one.public, SESSION, "seal")
    assert len({key, Agreement(one.private).with_(third.public, SESSION, "seal")}) == 2
    assert key != Agreement(one.private).with_(other.public, SESSION, "pair mask")
    assert key != Agreement(one.private).with_(other.public, b"t" * 32, "seal")


def test_a_key_of_small_order_is_refused():
    with pytest.raises(MessageError, match="no key of X25519"):
        Agreement(KeyPair.new().private).with_(bytes(32), SESSION, "seal")


@pytest.mark.parametrize("place", [0, 12, -1])
def test_what_is_sealed_cannot_be_changed(place):
    key = Agreement(KeyPair.new().private).with_(KeyPair.new().public, SESSION, "seal")
    sealed = bytearray(seal(key, b"shares", b"from 1 to 2"))
    assert unseal(key, bytes(sealed), b"from 1 to 2") == b"shares"
    with pytest.raises(MessageError, match="cannot be opened"):
        unseal(key, bytes(sealed), b"from 2 to 1")
    sealed[place] ^= 1
    with pytest.raises(MessageError, match="cannot be opened"):
        unseal(key, bytes(sealed), b"from 1 to 2")


def test_a_session_is_of_its_round_its_clients_and_their_keys():
    sessions = {
        session_of("round 1", ["a", "b"], b"keys"),
        session_of("round 2", ["a", "b"], b"keys"),
        session_of("round 1", ["ab", ""], b"keys"),
        session_of("round 1", ["a", "b"], b"kezs"),
    }
    assert len(sessions) == 4
