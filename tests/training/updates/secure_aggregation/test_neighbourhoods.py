"""How many holders it takes, against probabilities computed another way and against drawn graphs."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import hypergeom

from training.updates.secure_aggregation.neighbourhoods import (
    log2_in_parts,
    neighbourhood,
    part_of,
)
from training.updates.settings import SecureAggregationConfig, SparseMasksConfig

SETTINGS = [(0.05, 0.05), (0.05, 0.1), (0.1, 0.1), (0.1, 0.2), (0.2, 0.2)]
CLIENTS = [32, 50, 200, 500, 1000]


@pytest.mark.parametrize(("corrupted", "leaving"), SETTINGS)
@pytest.mark.parametrize("clients", CLIENTS)
@pytest.mark.parametrize("fewest", [2, 3, 5])
def test_bounds_hold_and_fewer_holders_would_not_do(clients, corrupted, leaving, fewest):
    found = neighbourhood(clients, corrupted, leaving, fewest)
    assert found is not None
    holds = promised(found.holders, clients, corrupted, leaving, fewest)
    assert holds[found.threshold, found.helpers]
    assert not promised(found.holders - 1, clients, corrupted, leaving, fewest).any()


def promised(holders, clients, corrupted, leaving, fewest):
    """Where (1) to (3) of the module hold, by t and c_max, with SciPy's hypergeometric distribution."""
    others, each = clients - 1, np.arange(holders + 1)
    helpers, gone = part_of(corrupted, clients), part_of(leaving, clients)
    few_helpers = clients * hypergeom.sf(each, others, helpers, holders) <= 2.0**-40
    none_lost = clients * hypergeom.sf(holders - each, others, gone, holders) <= 2.0**-30
    threshold, most = each[:, None], each[None, :]
    hides = (most < threshold) & (2 * threshold - holders - most >= fewest - 1)
    return hides & few_helpers[None, :] & none_lost[:, None]


@pytest.mark.parametrize(("corrupted", "leaving"), SETTINGS)
@pytest.mark.parametrize("clients", CLIENTS)
def test_those_that_are_there_hang_together(clients, corrupted, leaving):
    found = neighbourhood(clients, corrupted, leaving, 3)
    there = clients - part_of(corrupted, clients) - part_of(leaving, clients)
    assert log2_in_parts(clients, there, found.holders) < -40


def test_the_bound_on_parts_is_above_what_drawn_graphs_show():
    """With 2 of 11 others each, 8 of 12 there: it happens often enough to be counted."""
    random, clients, there, holders, drawn = np.random.default_rng(0), 12, 8, 2, 800
    parts = sum(in_parts(random, clients, there, holders) for _ in range(drawn)) / drawn
    bound = 2.0 ** log2_in_parts(clients, there, holders)
    assert 0.01 < parts < bound < 20 * parts


def in_parts(random, clients, there, holders):
    """Whether the first `there` fall apart."""
    common = np.zeros((clients, clients), dtype=bool)
    for each in range(clients):
        others = [other for other in range(clients) if other != each]
        common[each, random.choice(others, holders, replace=False)] = True
    common = (common | common.T)[:there, :there]
    reached, before = {0}, set()
    while reached != before:
        before = set(reached)
        reached |= {int(other) for each in before for other in np.flatnonzero(common[each])}
    return len(reached) < there


def test_few_hospitals_have_all():
    assert neighbourhood(5, 0.1, 0.1, 3) is None
    assert neighbourhood(40, 0.45, 0.27, 3) is None


def test_a_share_of_hospitals_is_rounded_up():
    assert [part_of(0.1, n) for n in (30, 31, 200)] == [3, 4, 20]
    assert part_of(0.07, 100) == 7  # 0.07 · 100 is 7.000000000000001


@pytest.mark.parametrize("clients", CLIENTS)
@pytest.mark.parametrize("corrupted", [0.0, 0.05, 0.1, 0.3])
def test_no_two_lists_of_survivors_are_both_confirmed(clients, corrupted):
    config = SecureAggregationConfig(sparse=SparseMasksConfig(corrupted=corrupted, leaving=0.1))
    helpers = part_of(corrupted, clients)
    honest = clients - helpers
    assert 2 * (config.threshold(clients) - helpers) > honest


def test_settings_that_leave_too_few_are_refused():
    with pytest.raises(ValidationError, match=r"corrupted \+ 2 leaving has to be below 1"):
        SparseMasksConfig(corrupted=0.4, leaving=0.3)
