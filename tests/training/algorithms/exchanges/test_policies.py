"""Each policy's filter on one example: a client of accuracy 0.6 and its three most similar others."""

import pytest

from training.algorithms.exchanges.policies import GatedSimilarity, GatedValidation, Static, Validation
from training.algorithms.exchanges.similarity import Candidate
from training.errors import JobError

ACCURACIES = {"me": 0.6, "good": 0.8, "same": 0.6, "poor": 0.5}
TOP = [Candidate("poor", 0.97), Candidate("same", 0.95), Candidate("good", 0.9)]


def passing(policy):
    return [peer.client for peer in TOP if policy.passes("me", peer, ACCURACIES)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Static(), ["poor", "same", "good"]),
        (Validation(), ["same", "good"]),
        (GatedValidation(threshold=0.7), ["good"]),
        (GatedValidation(threshold=0.8), ["good"]),
        (GatedValidation(threshold=0.85), []),
        (GatedSimilarity(threshold=0.95), ["poor", "same"]),
        (GatedSimilarity(threshold=0.96), ["poor"]),
        (GatedSimilarity(threshold=0.99), []),
    ],
)
def test_who_passes(policy, expected):
    assert passing(policy) == expected


def test_the_validation_policy_asks_whose_client_it_is():
    assert not Validation().passes("good", Candidate("me", 0.99), ACCURACIES)
    assert Validation().passes("poor", Candidate("me", 0.99), ACCURACIES)


def test_a_policy_of_similarities_is_refused_where_none_are_measured(make_job):
    exchange = {"name": "peers", "choice": {"name": "random"}, "policy": {"name": "gated-similarity"}}
    with pytest.raises(ValueError, match="compares similarities of weights; choice random has none"):
        make_job(federate={"objective": {"name": "fixmatch"}, "exchange": exchange})


def test_an_objective_that_learns_from_no_peers_is_refused(make_job):
    with pytest.raises(
        ValueError, match="supervised learns from no peers; use the exchange peers with fixmatch"
    ):
        make_job(federate={"exchange": {"name": "peers"}})


def test_judging_without_a_server_is_refused_before_the_first_round(make_job, run_job):
    exchange = {"name": "peers", "policy": {"name": "validation"}}
    objective = {"name": "fixmatch", "augment": {}, "strong": {"operations": 1}}
    with pytest.raises(JobError, match=r"judges uploads on validation pictures .* add data.server"):
        run_job(make_job(federate={"objective": objective, "exchange": exchange}))
