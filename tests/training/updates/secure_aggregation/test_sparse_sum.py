"""Sums in which each draws the holders of its shares: what is added up, who may leave, what it costs."""

import pytest
import torch

from training.errors import QuorumError
from training.messages.message import Failure
from training.updates.secure_aggregation import messages
from training.updates.secure_aggregation.circle import Circle, circle_of
from training.updates.secure_aggregation.messages import (
    HOLDERS,
    KEY_SHARES,
    MASKED,
    SEALED,
    SELF_SHARES,
    SHARE,
    UNMASK,
)
from training.updates.settings import SecureAggregationConfig

CLIENTS = 36
SPARSE = {"corrupted": 0.05, "leaving": 0.1}
CONFIG = SecureAggregationConfig.model_validate({"sparse": SPARSE})


def names(count=CLIENTS):
    return [f"c{number}" for number in range(count)]


def assert_sum(made, summed, stayed):
    assert list(summed.clients) == stayed
    expected = sum(made.values[name]["counts"] for name in stayed)
    assert torch.equal(summed.tensors["counts"], expected)


def test_each_shares_with_few_and_the_sum_is_exact(federation):
    made = federation(CLIENTS, sparse=SPARSE)
    circle = circle_of(names(), CONFIG)
    assert circle.sparse
    assert circle.holders < CLIENTS / 2
    assert_sum(made, made.sum(), names())
    shared = [update for update in made.seen if update.ask == SHARE]
    assert {tuple(update.tensors[SEALED].shape) for update in shared} == {(circle.holders, 160)}
    drawn = {tuple(update.tensors[HOLDERS].tolist()) for update in shared}
    assert len(drawn) == CLIENTS  # each its own


@pytest.mark.parametrize("leaves", [{"c3": SHARE}, {"c3": MASKED, "c9": MASKED}, {"c0": UNMASK}])
def test_clients_that_leave_cost_no_more_than_their_own_part(federation, leaves):
    made = federation(CLIENTS, leaves=leaves, sparse=SPARSE)
    summed = made.sum()
    stayed = [name for name in names() if leaves.get(name, UNMASK) == UNMASK]
    assert_sum(made, summed, stayed)
    assert sorted(failure.client for failure in summed.failures) == sorted(leaves)


def test_clients_that_leave_at_every_question(federation):
    made = federation(40, leaves={"c1": SHARE, "c2": MASKED, "c5": MASKED, "c7": UNMASK}, sparse=SPARSE)
    assert_sum(made, made.sum(), [name for name in names(40) if name not in ("c1", "c2", "c5")])


def test_the_coordinators_own_client_is_in_it_and_holds_nobodys(federation):
    made = federation(CLIENTS, sparse=SPARSE)
    made.values = {"server": made.values["c0"], **{n: v for n, v in made.values.items() if n != "c0"}}
    summed = made.sum()
    assert_sum(made, summed, ["server", *names()[1:]])
    given = {update.client: update for update in made.seen if update.ask == UNMASK}
    assert given["server"].tensors[SELF_SHARES].shape == (0, 66)
    assert all(0 not in update.tensors[HOLDERS] for update in made.seen if update.ask == SHARE)


def test_the_coordinator_never_gets_both_secrets_of_a_client(federation):
    made = federation(CLIENTS, leaves={"c2": MASKED}, sparse=SPARSE)
    made.sum()
    drew = {u.client: set(u.tensors[HOLDERS].tolist()) for u in made.seen if u.ask == SHARE}
    for update in (update for update in made.seen if update.ask == UNMASK):
        me = int(update.client[1:])
        gone = int(me in drew["c2"])
        there = sum(me in holders for name, holders in drew.items() if name != "c2")
        assert update.tensors[KEY_SHARES].shape == (gone, 66)
        assert update.tensors[SELF_SHARES].shape == (there, 66)


def test_below_the_threshold_nothing_is_unmasked(federation):
    left = CONFIG.threshold(CLIENTS) - 1
    made = federation(CLIENTS, leaves=dict.fromkeys(names()[left:], MASKED), sparse=SPARSE)
    with pytest.raises(QuorumError, match=rf"{left} clients are there after `masked`, {left + 1} are needed"):
        made.sum()
    assert not [update for update in made.seen if update.ask == UNMASK]


def test_a_hospital_whose_holders_are_gone_ends_the_sum_and_nothing_is_unmasked(federation):
    """More than `leaving` leave, all of them c0's: too few are left to bring its mask together."""
    made = federation(CLIENTS, sparse=SPARSE)
    circle = circle_of(names(), CONFIG)
    drew, lost = {}, set()

    real = made.ask

    def ask(broadcasts):
        if broadcasts[0].ask == MASKED:
            lost.update(drew["c0"][: circle.holders - circle.threshold + 1])
        told = [b for b in broadcasts if b.ask not in (MASKED, UNMASK) or int(b.client[1:]) not in lost]
        answers = {answer.client: answer for answer in real(told)}
        drew.update(
            {n: a.tensors[HOLDERS].tolist() for n, a in answers.items() if broadcasts[0].ask == SHARE}
        )
        return [answers.get(b.client) or Failure(b.client, b.track, "no sign of life") for b in broadcasts]

    made.ask = ask
    with pytest.raises(
        QuorumError,
        match=rf"c0 .*{circle.threshold - 1} of the .* that hold its shares|"
        rf"{circle.threshold - 1} shares of a secret came",
    ):
        made.sum()


def test_a_wrong_share_is_named_and_nothing_is_unmasked(federation):
    made = federation(CLIENTS, sparse=SPARSE)
    real = made.ask

    def lying(broadcasts):
        answers = real(broadcasts)
        for answer in answers:
            if answer.client == "c7" and broadcasts[0].ask == UNMASK:
                answer.tensors[SELF_SHARES][0, 65] ^= 1
        return answers

    made.ask = lying
    with pytest.raises(QuorumError, match=r"contradict each other.*that of c7 fits none of the others"):
        made.sum()


def test_without_the_check_a_wrong_share_beyond_the_threshold_is_not_seen(federation, monkeypatch):
    """The control: of the shares that come the last are not needed; one of the first spoils the sum."""
    from training.updates.secure_aggregation import recovery

    monkeypatch.setattr(recovery.Recovery, "secret", unchecked)
    made = federation(CLIENTS, sparse=SPARSE)
    real = made.ask

    def lying(broadcasts):
        answers = real(broadcasts)
        for answer in answers:
            if broadcasts[0].ask == UNMASK and answer.client == "c0":
                answer.tensors[SELF_SHARES][:, 65] ^= 1
        return answers

    made.ask = lying
    summed = made.sum()
    assert not torch.equal(summed.tensors["counts"], sum(values["counts"] for values in made.values.values()))


def unchecked(self, shares):
    """As `Recovery.secret` without what it refuses."""
    from training.updates.secure_aggregation.shamir import PRIME

    values = [int.from_bytes(shares[place], "big") for place in self.places]
    secret = sum(a * y for a, y in zip(self.at_zero, values, strict=False)) % PRIME
    return (secret % 2**256).to_bytes(32, "big")


@pytest.mark.parametrize("count", [3, 9])
def test_with_few_hospitals_nothing_differs(federation, monkeypatch, count):
    """Keys and nonces made alike, every byte of every message is that of a sum without the setting."""
    config = SecureAggregationConfig.model_validate({"sparse": SPARSE})
    for few in (count, 31):
        assert config.threshold(few) == SecureAggregationConfig().threshold(few)
        assert not circle_of(names(few), config).sparse

    def messages_of(**settings):
        drawn = torch.Generator().manual_seed(1)

        def numbers(size):
            return torch.randint(0, 256, (size,), generator=drawn, dtype=torch.uint8).numpy().tobytes()

        from training.updates.secure_aggregation import keys, shamir

        monkeypatch.setattr(keys.os, "urandom", numbers)
        monkeypatch.setattr(keys.KeyPair, "new", classmethod(lambda cls: cls.of(numbers(32))))
        monkeypatch.setattr(shamir.secrets, "randbelow", lambda below: int.from_bytes(numbers(60), "big"))
        made = federation(count, **settings)
        asked = []
        made.tamper = lambda broadcast: asked.append(broadcast) or broadcast
        made.sum()
        monkeypatch.undo()
        told = [(b.ask, b.options, {n: t.tolist() for n, t in b.tensors.items()}) for b in asked]
        return told, [(u.ask, {n: t.tolist() for n, t in u.tensors.items()}) for u in made.seen]

    assert messages_of(sparse=SPARSE) == messages_of()


def test_an_all_with_all_question_has_no_new_options(federation):
    made = federation(3)
    asked = []
    made.tamper = lambda broadcast: asked.append(broadcast) or broadcast
    made.sum()
    of_kind = {broadcast.ask: set(broadcast.options) for broadcast in asked}
    assert of_kind == {
        messages.SHARE: {"of", "threshold", "clients", "signed"},
        messages.MASKED: {"of", "threshold", "present", "weight", "total_weight", "layout"},
        messages.UNMASK: {"of", "threshold", "survivors", "confirmed"},
    }


def test_holders_are_drawn_anew_and_each_as_often():
    clients, circle, rounds = names(40), Circle(True, 10, 7), 4000
    times = torch.zeros(40)
    for _ in range(rounds):
        drawn = circle.draw(clients, 5)
        assert circle.fits(drawn, clients, 5)
        times[drawn] += 1
    assert times[5] == 0
    expected = rounds * 10 / 39
    statistic = float(((times[torch.arange(40) != 5] - expected) ** 2 / expected).sum())
    assert 10 < statistic < 90  # 29 degrees of freedom are lost to what is drawn together; 39 at the most


@pytest.mark.parametrize(
    "holders", [[0, 1], [0, 1, 2, 5], [2, 1, 0], [1, 1, 2], [0, 1, 40], [-1, 0, 1], [0, 1, 5]]
)
def test_what_cannot_have_been_drawn_is_no_list_of_holders(holders):
    clients = ["c0", "c1", "c2", "c3", "server", "c5"]
    assert Circle(True, 3, 2).fits([0, 1, 2], clients, 5)
    assert not Circle(True, 3, 2).fits(holders, clients, 5)
