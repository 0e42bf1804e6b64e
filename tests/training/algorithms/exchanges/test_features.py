"""Shared features: what each client hears of the others, alone and through the real loop."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.exchanges import SharedFeatures
from training.algorithms.exchanges.base import EMPTY_CONTEXT
from training.engines.in_process import InProcessEngine
from training.errors import MessageError, QuorumError
from training.messages import Update


def rows(count, width=4, seed=0):
    plain = np.random.default_rng(seed).normal(size=(count, width))
    return torch.from_numpy(plain / np.linalg.norm(plain, axis=1, keepdims=True)).float()


def as_set(*banks):
    """The rows of banks, whatever their order."""
    return sorted(tuple(row) for bank in banks for row in bank.tolist())


def sent(exchange, client, memory, random):
    """The features that go to a client."""
    return exchange.outgoing(client, 1, memory, random, EMPTY_CONTEXT).tensors["features"]


def from_client(tensors, client="north"):
    return Update(client, "0-pretrain", 1, "fit", tensors={f"exchange/{n}": t for n, t in tensors.items()})


BANKS = {"north": rows(5, seed=1), "south": rows(3, seed=2), "west": rows(4, seed=3)}


@given(order=st.permutations(list(BANKS)), client=st.sampled_from(list(BANKS)), seed=st.integers(0, 9))
def test_all_others_and_never_ones_own_in_an_order_that_tells_nothing(order, client, seed):
    random = np.random.default_rng(seed)
    memory = {name: BANKS[name][torch.from_numpy(random.permutation(len(BANKS[name])))] for name in order}
    out = SharedFeatures().outgoing(client, 1, memory, random, EMPTY_CONTEXT).tensors
    assert set(out) == {"features"}
    assert as_set(out["features"]) == as_set(*(BANKS[name] for name in BANKS if name != client))
    # Neither the order of the clients nor that of a client's rows shows.
    assert torch.equal(out["features"], sent(SharedFeatures(), client, BANKS, np.random.default_rng(0)))


def test_a_limit_draws_uniformly_without_replacement_in_the_same_order():
    memory = {"south": rows(3, seed=2), "west": rows(4, seed=3)}
    whole = sent(SharedFeatures(), "north", memory, np.random.default_rng(0)).tolist()
    counts = np.zeros(7)
    random = np.random.default_rng(5)
    for _ in range(700):
        drawn = sent(SharedFeatures(limit=3), "north", memory, random).tolist()
        places = [whole.index(row) for row in drawn]
        assert places == sorted(set(places))
        assert len(places) == 3
        counts[places] += 1
    np.testing.assert_allclose(counts, 300, atol=50)  # 4 standard deviations
    enough = sent(SharedFeatures(limit=7), "north", memory, random).tolist()
    assert enough == whole


def test_another_width_than_the_others_is_refused():
    with pytest.raises(
        MessageError, match=r"north sent features of width 6; those before were of width \[4\]"
    ):
        SharedFeatures().check(from_client({"features": rows(2, 6)}), {"south": rows(3)})


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "north sent nothing to the exchange; expected `features` alone"),
        ({"features": rows(2), "ids": rows(2)}, r"north sent \['features', 'ids'\] to the exchange"),
        ({"features": torch.ones(2, 4, dtype=torch.int64)}, r"as torch.int64 \(2, 4\); expected float32"),
        ({"features": rows(2).double()}, r"as torch.float64 \(2, 4\); expected float32"),
        ({"features": rows(2)[0]}, r"north sent features as torch.float32 \(4,\)"),
        ({"features": rows(2)[:0]}, r"north sent features as torch.float32 \(0, 4\)"),
        ({"features": torch.cat([rows(2), 2 * rows(1)])}, "north sent 1 features that are not of length 1"),
        ({"features": rows(2) * torch.nan}, "north sent 2 features that are not of length 1, first nan"),
    ],
)
def test_what_is_no_bank_of_features_is_refused(tensors, said):
    with pytest.raises(MessageError, match=said):
        SharedFeatures().check(from_client(tensors), {})


def block(exchange=None, participation=1.0, rounds=2, **objective):
    """A stage of MoCo; a setting of None is left out."""
    settings = {
        "name": "moco",
        "batch_size": 6,
        "features": 8,
        "queue": 10,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
        **objective,
    }
    return {
        "stage": "pretrain",
        "rounds": rounds,
        "participation": participation,
        "objective": {name: value for name, value in settings.items() if value is not None},
        "exchange": exchange or {"name": "none"},
        "aggregator": {"name": "fedavg"},
    }


SHARED = {"name": "features"}


@pytest.fixture
def spied(monkeypatch):
    """Every request and its answer, in order."""
    seen, ask = [], InProcessEngine.run_round

    def run_round(self, broadcasts):
        answers = ask(self, broadcasts)
        # Weights are updated in place of what was read; a copy is what was sent.
        seen.extend(zip([replace(b, tensors=dict(b.tensors)) for b in broadcasts], answers, strict=True))
        return answers

    monkeypatch.setattr(InProcessEngine, "run_round", run_round)
    return seen


@pytest.mark.parametrize(("participation", "local_negatives"), [(1.0, False), (0.5, True)])
def test_in_every_round_a_client_hears_the_newest_of_all_others(
    run_job, make_job, spied, participation, local_negatives
):
    run_job(
        make_job(
            stages=[block(SHARED, participation, 4, local_negatives=local_negatives)],
        )
    )
    banks, waiting, rounds = {}, {}, []
    for request, answer in spied:
        if request.ask not in ("open", "fit"):
            continue
        if request.ask == "fit":
            if request.round not in rounds:
                banks, rounds = {**banks, **waiting}, [*rounds, request.round]
            others = [bank for name, bank in banks.items() if name != request.client]
            assert as_set(request.tensors["exchange/features"]) == as_set(*others)
            own = set(as_set(banks[request.client]))
            assert not own & set(as_set(request.tensors["exchange/features"]))
        sent = answer.tensors["exchange/features"].clone()
        assert sent.shape == ({"north": 10, "south": 9, "west": 7}[request.client], 8)
        if request.ask == "open":
            banks[request.client] = sent
        else:
            assert not torch.equal(sent, banks[request.client])
            waiting[request.client] = sent
        told = [name for name in (*request.tensors, *answer.tensors) if name.startswith("exchange/")]
        assert set(told) == {"exchange/features"}
        assert not request.options
    assert rounds == [1, 2, 3, 4]
    cohorts = {
        number: {q.client for q, _ in spied if (q.ask, q.round) == ("fit", number)} for number in rounds
    }
    assert set().union(*cohorts.values()) == {"north", "south", "west"}
    if participation < 1:
        assert {len(cohort) for cohort in cohorts.values()} == {2}  # so one client begins later than round 1


def test_a_client_alone_in_its_federation_is_told(run_job, make_job, make_dataset):
    data = make_dataset({"north": {"light": (8, 3, 3, 3), "dark": (4, 3, 3, 3)}})
    with pytest.raises(QuorumError, match="north received no features from others in round 1"):
        run_job(make_job(stages=[block(SHARED)]), data)
