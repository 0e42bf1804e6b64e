"""A threshold of shares gives the secret, fewer give nothing, wrong ones are noticed."""

import secrets
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.errors import MessageError
from training.updates.secure_aggregation.shamir import PRIME, combine, evaluate, interpolate, split


def test_by_hand():
    # f(x) = 1234 + 166 x + 94 x², of which f(1), …, f(6) modulo p are known from the textbook example.
    points = [(x, evaluate([1234, 166, 94], x)) for x in range(1, 7)]
    assert points == [(1, 1494), (2, 1942), (3, 2578), (4, 3402), (5, 4414), (6, 5614)]
    assert all(interpolate(chosen, 0) == 1234 for chosen in combinations(points, 3))


@settings(max_examples=30)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.data())
def test_any_threshold_of_shares_gives_the_secret(secret, threshold, data):
    count = data.draw(st.integers(threshold, 8))
    shares = dict(enumerate(split(secret, count, threshold)))
    chosen = data.draw(st.permutations(range(count)))[: data.draw(st.integers(threshold, count))]
    assert combine({place: shares[place] for place in chosen}, threshold) == secret


@settings(max_examples=20)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_fewer_shares_fit_every_secret_alike(secret, other):
    # With t − 1 shares there is, for whatever secret, exactly one polynomial through them.
    shares = split(secret, 5, 3)[:2]
    points = [(0, int.from_bytes(other, "big"))]
    points += [(x, int.from_bytes(share, "big")) for x, share in enumerate(shares, start=1)]
    third = interpolate(points, 3).to_bytes(66, "big")
    assert combine({0: shares[0], 1: shares[1], 2: third}, 3) == other


def test_too_few_shares_are_refused():
    with pytest.raises(MessageError, match="2 shares of a secret came, 3 are needed"):
        combine(dict(enumerate(split(bytes(32), 4, 3)[:2])), 3)


def test_a_wrong_share_is_noticed():
    shares = dict(enumerate(split(secrets.token_bytes(32), 5, 3)))
    shares[1] = ((int.from_bytes(shares[1], "big") + 1) % PRIME).to_bytes(66, "big")
    with pytest.raises(MessageError, match="contradict"):
        combine(shares, 3)
