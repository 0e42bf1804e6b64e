"""Peers against hand-made rankings, and the policies that let them pass."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.exchanges import Peers
from training.algorithms.exchanges.base import EMPTY_CONTEXT, ServerContext
from training.algorithms.exchanges.peers import GatedSimilarity, GatedValidation, Validation, mean_of
from training.algorithms.exchanges.similarity import RandomPeers, WeightSimilarity
from training.errors import JobError
from training.messages import Update, named


def test_a_policy_of_similarities_is_refused_where_none_are_measured(make_job):
    exchange = {"name": "peers", "choice": {"name": "random"}, "policy": {"name": "gated-similarity"}}
    with pytest.raises(ValueError, match="compares similarities of weights; choice random has none"):
        make_job(federate={"objective": {"name": "fixmatch"}, "exchange": exchange})


def test_judging_without_a_server_is_refused_before_the_first_round(make_job, run_job):
    exchange = {"name": "peers", "policy": {"name": "validation"}}
    objective = {"name": "fixmatch", "augment": {}, "strong": {"operations": 1}}
    with pytest.raises(JobError, match=r"judges uploads on validation pictures .* add data.server"):
        run_job(make_job(federate={"objective": objective, "exchange": exchange}))


def layer(mean, spread):
    """Weights of mean `mean` and deviation `spread`."""
    return {"weight": torch.tensor([mean - spread, mean + spread])}


# Two pairs and one far off; in features (mean, deviation) scaled to [0, 1] over all five:
# a (0, 0), b (0.1, 0.05), c (1, 0.9), d (0.9, 1), e (0.5, 0).
UPLOADS = {
    "a": layer(0.0, 1.0),
    "b": layer(1.0, 1.1),
    "c": layer(10.0, 2.8),
    "d": layer(9.0, 3.0),
    "e": layer(5.0, 1.0),
}


class Shelf(dict):
    """Uploads in memory, with how accurate each is."""

    accuracies: ClassVar = {"a": 0.5, "b": 0.6, "c": 0.7, "d": 0.8, "e": 0.9}
    before: int | None = None  # the round that the newest upload says its client's last one was of

    def server_context(self):
        return ServerContext(self.keep, self.give, self.judge, EMPTY_CONTEXT.predict_noise)

    def keep(self, client, round_, tensors, previous):
        assert previous is None or (client, previous) in self
        self[client, round_] = tensors
        self.before = previous

    def give(self, client, round_):
        return self[client, round_]

    def judge(self, tensors):
        (name,) = {client for (client, _), kept in self.items() if kept is tensors}
        return self.accuracies.get(name)


def after(exchange, clients="abcde", round_=3, memory=None, uploads=UPLOADS):
    """The server's memory and shelf after a round in which `clients` took part."""
    shelf, memory = Shelf(), memory or {}
    for client in clients:
        update = Update(client, "0-federate", round_, "fit", tensors=uploads[client])
        memory = exchange.collect(update, memory, shelf.server_context())
    return exchange.conclude(clients, round_, memory, shelf.server_context()), shelf


def sent(exchange, client, round_=11, clients="abcde", seed=0):
    memory, shelf = after(exchange, clients)
    return exchange.outgoing(client, round_, memory, np.random.default_rng(seed), shelf.server_context())


def test_the_nearest_by_weights_in_order():
    # By hand from the scaled features: cos(c, d) = (1·0.9 + 0.9·1) / (√1.81 · √1.81) = 1.8/1.81.
    parcel = sent(Peers(peers=2, anonymous=False), "c")
    assert parcel.note["peers"][0] == "d"
    assert parcel.note["similarity"][0] == pytest.approx(1.8 / 1.81, abs=1e-5)
    # e (0.5, 0): cos(c, e) = 1/√1.81 = 0.743; b (0.1, 0.05): cos = 0.145 / (√1.81 · √0.0125) = 0.964.
    assert parcel.note["peers"][1] == "b"
    assert parcel.note["similarity"][1] == pytest.approx(0.145 / np.sqrt(1.81 * 0.0125), abs=1e-5)
    first, second = (named(parcel.tensors, f"peer-{place}/") for place in (0, 1))
    assert torch.equal(first["weight"], UPLOADS["d"]["weight"])
    assert torch.equal(second["weight"], UPLOADS["b"]["weight"])
    assert len(parcel.tensors) == 2


@given(
    count=st.integers(1, 9),
    anonymous=st.booleans(),
    client=st.sampled_from("abcde"),
    by=st.sampled_from([WeightSimilarity(), WeightSimilarity(scaled=False), RandomPeers()]),
)
def test_at_most_t_others_and_one_or_t_models_travel(count, anonymous, client, by):
    parcel = sent(Peers(peers=count, anonymous=anonymous, choice=by), client)
    peers = parcel.note["peers"]
    assert client not in peers
    assert len(set(peers)) == len(peers) == min(count, 4)
    assert len(parcel.tensors) == (1 if anonymous else min(count, 4))


def test_an_anonymized_peer_is_the_average_of_weights():
    parcel = sent(Peers(peers=2), "c")
    expected = (UPLOADS["d"]["weight"].double() + UPLOADS["b"]["weight"].double()) / 2
    assert list(parcel.tensors) == ["peer-0/weight"]
    torch.testing.assert_close(parcel.tensors["peer-0/weight"], expected.float(), rtol=0, atol=0)


def test_the_mean_keeps_its_type_and_leaves_its_members_alone():
    members = [{"w": torch.tensor([1.0, 3.0], dtype=torch.float16)}, {"w": torch.tensor([2.0, 5.0])}]
    double = {"w": torch.tensor([4.0, 1.0], dtype=torch.float64)}
    assert mean_of([double, double, *members[1:]])["w"].tolist() == pytest.approx([10 / 3, 7 / 3])
    assert double["w"].tolist() == [4, 1]
    before = [member["w"].clone() for member in members]
    assert mean_of(members[1:] * 2)["w"].tolist() == [2, 5]
    large = {"w": torch.tensor([6e4], dtype=torch.float16)}
    assert mean_of([large, large])["w"].tolist() == large["w"].tolist(), (
        "the sum has no room in half precision"
    )
    assert mean_of(iter(members[:1]))["w"].dtype == torch.float16
    assert all(torch.equal(member["w"], old) for member, old in zip(members, before, strict=True))


@pytest.mark.parametrize(
    ("policy", "passed", "refused"),
    [
        (Validation(), ["d"], ["b"]),  # c has 0.7, d 0.8, b 0.6
        (GatedValidation(threshold=0.55), ["d", "b"], None),
        (GatedValidation(threshold=0.95), [], ["d", "b"]),
        (GatedSimilarity(threshold=0.97), ["d"], ["b"]),
        (GatedSimilarity(threshold=0.999), [], ["d", "b"]),
    ],
)
def test_a_policy_sees_the_top_t_and_nobody_steps_in(policy, passed, refused):
    parcel = sent(Peers(peers=2, policy=policy), "c")
    assert parcel.note["peers"] == passed
    assert parcel.note.get("refused") == refused
    assert len(parcel.tensors) == bool(passed)
    for name in passed if len(passed) == 1 else ():
        torch.testing.assert_close(parcel.tensors["peer-0/weight"], UPLOADS[name]["weight"])


@pytest.mark.parametrize(
    ("changes", "round_", "client", "clients"),
    [
        ({"peers": 0}, 11, "a", "abcde"),
        ({}, 10, "a", "abcde"),  # the last round of the warm-up
        ({}, 11, "a", "bcde"),  # has not taken part yet
        ({}, 11, "a", "a"),  # has nobody beside it
        ({"every": 3}, 12, "a", "abcde"),
        ({"every": 3}, 13, "a", "abcde"),
    ],
)
def test_without_peers_nothing_travels(changes, round_, client, clients):
    parcel = sent(Peers(**changes), client, round_, clients)
    assert (dict(parcel.tensors), dict(parcel.note)) == ({}, {})


@pytest.mark.parametrize(("warm_up", "every", "round_"), [(10, 1, 11), (10, 3, 11), (10, 3, 14), (0, 1, 1)])
def test_peers_come_after_the_warm_up_and_then_every_so_often(warm_up, every, round_):
    assert sent(Peers(warm_up=warm_up, every=every), "a", round_).tensors


def test_the_server_is_no_peer_and_has_none():
    uploads = {**UPLOADS, "server": UPLOADS["a"]}
    memory, shelf = after(Peers(warm_up=0), ["a", "b", "server"], uploads=uploads)
    assert {name for name, _ in shelf} == {"a", "b"}
    for client, peers in (("a", ["b"]), ("server", None)):
        parcel = Peers(warm_up=0).outgoing(
            client, 4, memory, np.random.default_rng(0), shelf.server_context()
        )
        assert parcel.note.get("peers") == peers


def test_the_newest_upload_counts_and_the_others_stand():
    exchange = Peers(peers=1)
    memory, shelf = after(exchange, round_=3)
    before = {name: value.clone() for name, value in memory.items()}
    moved = Update("a", "0-federate", 7, "fit", tensors=layer(9.5, 2.9) | {"exchange/x": torch.ones(1)})
    later = exchange.conclude(
        "a", 7, exchange.collect(moved, memory, shelf.server_context()), shelf.server_context()
    )
    assert {name: int(value) for name, value in named(later, "uploaded/").items()} == {
        "a": 7,
        "b": 3,
        "c": 3,
        "d": 3,
        "e": 3,
    }
    assert set(shelf["a", 7]) == {"weight"}, "what is of the exchange is no weight"
    assert shelf.before == 3, "a run that goes back a round needs the upload before"
    assert all(torch.equal(value, before[name]) for name, value in memory.items())
    parcel = exchange.outgoing("d", 11, later, np.random.default_rng(0), shelf.server_context())
    assert parcel.note["peers"] == ["a"]
    torch.testing.assert_close(parcel.tensors["peer-0/weight"], layer(9.5, 2.9)["weight"])


def test_whose_newest_upload_cannot_be_judged_is_nobodys_peer():
    exchange = Peers(peers=4, policy=Validation(), warm_up=0)
    memory, shelf = after(exchange)
    assert "d" in exchange.committee("a", 4, memory, np.random.default_rng(0)).note["peers"]
    shelf.accuracies = {**shelf.accuracies, "d": None}
    later = exchange.conclude("de", 3, memory, shelf.server_context())
    assert set(named(later, "accuracy/")) == set(named(later, "profile/")) == set("abce")
    assert "d" not in exchange.committee("a", 4, later, np.random.default_rng(0)).note["peers"]
    with pytest.raises(JobError, match=r"could judge none of the uploads of round 3 \(d\)"):
        exchange.conclude("d", 3, memory, shelf.server_context())


def test_the_similarity_matrix_is_reported_at_the_end():
    memory, _ = after(Peers())
    told = Peers().facts(memory)["similarity"]
    assert told["clients"] == list("abcde")
    matrix = np.array(told["matrix"])
    assert matrix[2, 3] == pytest.approx(1.8 / 1.81, abs=1e-5)
    np.testing.assert_allclose(matrix, matrix.T)
    assert Peers(choice=RandomPeers()).facts(memory) == {}
