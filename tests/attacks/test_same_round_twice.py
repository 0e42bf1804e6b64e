"""The weights of one round are summed twice, the second time without one hospital and after a restart.

As after a kill and `--resume --without`: training is repeatable, so the difference would be that hospital's
weights. Each hospital has on its disk over whom it let the round's weights be unmasked.
"""

import pytest
import torch

from tests.attacks.summing import Hospital, asker, hospitals
from training.errors import QuorumError
from training.messages import Broadcast, Failure, Update
from training.privacy.secagg import messages
from training.privacy.secagg.client import withhold
from training.privacy.secagg.messages import topic_of
from training.privacy.secagg.sums import CohortError, sum_masked_updates

FOUR = ("ash", "birch", "cedar", "elm")


def restarted(folder, made):
    """The same hospitals in new processes: of before there is what lies on disk."""
    return {
        name: Hospital(name, each.counts, folder, each.config, each.identity) for name, each in made.items()
    }


def weights_of(made, names, round_=1, ask="fit"):
    """The sum of one round's weights, whole numbers here so that differences are exact."""
    updates = []
    for name in names:
        request = Broadcast(name, "0-federate", round_, ask, "global", {}, {})
        update = Update(*request.address, tensors={"weights": made[name].counts})
        updates.append(withhold(update, made[name].client, topic_of(request), made[name].identity))
    return sum_masked_updates(asker(made), updates, made[names[0]].config).tensors["weights"]


@pytest.mark.parametrize("signed", [False, True])
def test_the_second_sum_is_refused_and_the_same_one_is_not(tmp_path, signed):
    made = hospitals(tmp_path, FOUR, signed=signed)
    whole = weights_of(made, FOUR)
    made = restarted(tmp_path, made)
    with pytest.raises(CohortError, match=r"the sum of `fit` over ash, birch, cedar, elm .*without elm"):
        weights_of(made, FOUR[:3])
    assert torch.equal(weights_of(made, FOUR), whole)
    assert weights_of(made, FOUR[:3], round_=2).shape == whole.shape


@pytest.mark.parametrize("signed", [False, True])
def test_hospitals_refuse_it_whatever_the_coordinator_does(tmp_path, monkeypatch, signed):
    from training.privacy.secagg import sums

    made = hospitals(tmp_path, FOUR, signed=signed)
    weights_of(made, FOUR)
    made = restarted(tmp_path, made)
    monkeypatch.setattr(sums, "same_cohort", lambda topic, held, failures: list(held))
    with pytest.raises(
        QuorumError, match=r"takes no part in a second sum: the sum of `0-federate/global/fit/1`"
    ):
        weights_of(made, FOUR[:3])


def test_who_keeps_nothing_can_be_subtracted(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "entries", lambda client: {})
    made = hospitals(tmp_path, FOUR, signed=False)
    difference = weights_of(made, FOUR) - weights_of(restarted(tmp_path, made), FOUR[:3])
    assert torch.equal(difference, made["elm"].counts)


def test_a_round_that_nobody_unmasked_may_be_done_again_without_one(tmp_path):
    made = hospitals(tmp_path, FOUR, signed=False)
    real = asker(made)

    def until_masked(requests):
        if requests[0].ask == "unmask":
            return [Failure(each.client, each.track, "no heartbeat") for each in requests]
        return real(requests)

    updates = []
    for name in FOUR:
        update = Update(name, "0-federate", 1, "fit", tensors={"weights": made[name].counts})
        updates.append(withhold(update, made[name].client))
    with pytest.raises(QuorumError, match="0 clients are there after `unmask`"):
        sum_masked_updates(until_masked, updates, made["ash"].config)
    made = restarted(tmp_path, made)
    assert torch.equal(weights_of(made, FOUR[:3]), sum(made[name].counts for name in FOUR[:3]))
