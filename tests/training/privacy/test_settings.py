"""Settings of sums under masks: how many must stay, and how many help."""

import pytest

from training.privacy.settings import SecureAggregationConfig


@pytest.mark.parametrize(
    ("clients", "needed", "helpers"), [(3, 3, 2), (4, 3, 2), (5, 4, 3), (6, 5, 4), (10, 7, 4), (30, 21, 12)]
)
def test_two_thirds_must_stay_where_a_job_does_not_say(clients, needed, helpers):
    config = SecureAggregationConfig()
    assert (config.threshold(clients), config.helpers(clients)) == (needed, helpers)
    assert SecureAggregationConfig(survivors=0.5).threshold(clients) <= needed
