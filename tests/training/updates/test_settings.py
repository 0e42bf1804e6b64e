"""Settings of sums under masks: how many must stay, how many help, and what a job is known by."""

import pytest

from training.config import IDENTITY
from training.updates.settings import SecureAggregationConfig


@pytest.mark.parametrize(
    ("clients", "needed", "helpers"), [(3, 3, 2), (4, 3, 2), (5, 4, 3), (6, 5, 4), (10, 7, 4), (30, 21, 12)]
)
def test_two_thirds_must_stay_where_a_job_does_not_say(clients, needed, helpers):
    config = SecureAggregationConfig()
    assert (config.threshold(clients), config.helpers(clients)) == (needed, helpers)
    assert SecureAggregationConfig(survivors=0.5).threshold(clients) <= needed


def test_a_job_that_does_not_say_keeps_its_identity_and_one_that_asks_for_a_half_has_another():
    silent, half = (SecureAggregationConfig(survivors=share) for share in (None, 0.5))
    earlier = {"fewest": 3, "survivors": 0.5, "bound": 64.0, "counts": True}
    assert silent.model_dump(mode="json", context=IDENTITY) == earlier
    assert half.model_dump(mode="json", context=IDENTITY) != earlier
    assert half.model_dump(mode="json")["survivors"] == 0.5
    assert SecureAggregationConfig.model_validate(silent.model_dump(mode="json")) == silent
