"""All share with all, and some hospitals help a coordinator that tells one of others than all the others.

Each hospital confirms one list, and t of n have to. Two lists, each with half of the honest hospitals and all
that help, both come to t once 2 t − n hospitals help; so does one whose victim was told of others.
"""

import pytest
import torch

from tests.attacks.alone import Attack
from tests.attacks.summing import asker, evaluate, hospitals, updates_of
from training.errors import TrainingError
from training.privacy.secagg.client import MASK_KEY, MASKS, kept_in
from training.privacy.secagg.messages import tensor_bytes_of, topic_of
from training.privacy.settings import SecureAggregationConfig

FIVE = ("ash", "birch", "cedar", "elm", "fir")
SIGNED = pytest.mark.parametrize("signed", [False, True])


def ashes_counts(folder, survivors, helpers, signed):
    """What the coordinator gets of ash's counts, and what they are."""
    made = hospitals(folder, FIVE, signed=signed)
    config = SecureAggregationConfig(survivors=survivors)
    for each in made.values():
        each.config = config
    requests = evaluate(made, FIVE, split="validation", ask="evaluate", round=1)
    updates = updates_of(asker(made)(requests))
    attack = Attack.begin(asker(made), updates, config, asked=topic_of(requests[0]).asked)
    about = attack.summing.about
    attack.lent = {
        place: tensor_bytes_of(kept_in(made[FIVE[place]].client, about, about.ask, MASKS)[MASK_KEY])
        for place in helpers
    }
    told = range(1, config.threshold(len(FIVE)))  # with itself as many as it takes
    return attack.alone(0, list(told), helpers), made["ash"].counts


@SIGNED
def test_as_many_as_2t_less_n_helpers_are_enough(tmp_path, signed):
    """One of five with `survivors` at a half: 2 · 3 − 5."""
    found, counts = ashes_counts(tmp_path, 0.5, [1], signed)
    assert torch.equal(found, counts)


@SIGNED
@pytest.mark.parametrize(("survivors", "helpers"), [(0.5, []), (None, [1]), (None, [1, 2])])
def test_fewer_are_not(tmp_path, signed, survivors, helpers):
    """None with a half; with what is the default it takes 2 · 4 − 5 = 3 of five."""
    with pytest.raises(TrainingError, match=r"are needed"):
        ashes_counts(tmp_path, survivors, helpers, signed)


def test_three_of_five_are_again_enough(tmp_path):
    found, counts = ashes_counts(tmp_path, None, [1, 2, 3], signed=False)
    assert torch.equal(found, counts)
    assert SecureAggregationConfig().helpers(len(FIVE)) == 3
