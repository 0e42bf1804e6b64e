"""A threshold of shares gives the secret, fewer give nothing, wrong ones are noticed and named."""

import secrets
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.errors import MessageError
from training.privacy.secagg import arithmetic
from training.privacy.secagg.arithmetic import PRIME, Recovery, evaluate, split


def combine(shares, threshold):
    return Recovery.of(shares, threshold).secret(shares)


def interpolate(points, at):
    """Lagrange's formula as it is written: the value at `at` of the least polynomial through `points`."""
    value = 0
    for x, y in points:
        above = below = 1
        for other, _ in points:
            if other != x:
                above = above * (at - other) % PRIME
                below = below * (x - other) % PRIME
        value = (value + y * above * pow(below, -1, PRIME)) % PRIME
    return value


def test_by_hand():
    # f(x) = 1234 + 166 x + 94 x², of which f(1), …, f(6) modulo p are known from the textbook example.
    points = list(enumerate(evaluate([1234, 166, 94], range(1, 7)), start=1))
    assert points == [(1, 1494), (2, 1942), (3, 2578), (4, 3402), (5, 4414), (6, 5614)]
    for chosen in combinations(points, 3):
        made = Recovery.of((x - 1 for x, _ in chosen), 3)
        shares = {x - 1: y.to_bytes(66, "big") for x, y in chosen}
        assert int.from_bytes(made.secret(shares), "big") == interpolate(chosen, 0) == 1234


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


def spoilt(shares, *places):
    """The same shares, those at these places off by a number of their own."""
    found = dict(shares)
    for place in places:
        wrong = int.from_bytes(found[place], "big") + 1 + secrets.randbelow(PRIME - 1)
        found[place] = (wrong % PRIME).to_bytes(66, "big")
    return found


@pytest.mark.parametrize(("count", "threshold"), [(4, 3), (5, 3), (20, 11), (60, 31)])
def test_a_wrong_share_is_noticed_wherever_it_is_and_named_where_it_can_be(count, threshold):
    shares = dict(enumerate(split(secrets.token_bytes(32), count, threshold)))
    made = Recovery.of(shares, threshold)
    assert made.wrong(shares) is None
    for place in range(count):
        changed = spoilt(shares, place)
        with pytest.raises(MessageError, match="contradict"):
            made.secret(changed)
        assert made.wrong(changed) == (place if count > threshold + 1 else None)


def test_several_wrong_shares_are_noticed_and_nobody_is_blamed():
    shares = dict(enumerate(split(secrets.token_bytes(32), 20, 11)))
    made = Recovery.of(shares, 11)
    for places in [(0, 1), (12, 19), (3, 15, 16), range(9), range(11, 20), range(20)]:
        changed = spoilt(shares, *places)
        with pytest.raises(MessageError, match="contradict"):
            made.secret(changed)
        assert made.wrong(changed) is None


def test_shares_of_a_polynomial_of_one_degree_more_are_noticed():
    """What no look at single shares finds: each is a point of one curve, of too high a degree."""
    higher = split(secrets.token_bytes(32), 20, 12)
    with pytest.raises(MessageError, match="contradict"):
        combine(dict(enumerate(higher)), 11)


def test_without_the_word_a_wrong_share_beyond_the_threshold_would_pass(monkeypatch):
    """The control: of 5 shares the last two are not needed, and only the word looks at them."""
    monkeypatch.setattr(arithmetic, "dual_word", lambda points, dual, degrees: [])
    secret = secrets.token_bytes(32)
    shares = dict(enumerate(split(secret, 5, 3)))
    assert combine(spoilt(shares, 4), 3) == secret


def test_a_word_that_is_known_beforehand_could_be_lied_to(monkeypatch):
    """The control: against a q that is known, two wrong shares that make up for each other pass."""
    monkeypatch.setattr(arithmetic.secrets, "randbelow", lambda below: 1)
    shares = dict(enumerate(split(secrets.token_bytes(32), 6, 3)))
    made = Recovery.of(shares, 3)
    lie = {4: 1, 5: -made.word[4] * pow(made.word[5], -1, PRIME)}
    lied = {
        place: ((int.from_bytes(share, "big") + lie.get(place, 0)) % PRIME).to_bytes(66, "big")
        for place, share in shares.items()
    }
    made.secret(lied)
    monkeypatch.undo()
    with pytest.raises(MessageError, match="contradict"):
        Recovery.of(shares, 3).secret(lied)
