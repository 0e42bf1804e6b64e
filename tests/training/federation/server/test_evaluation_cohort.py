from dataclasses import dataclass, replace

import pytest

from training.algorithms.aggregators.fedavg import FedAvg
from training.algorithms.exchanges import NoExchange
from training.federation.server.evaluation_cohort import evaluation_cohort, strata_of
from training.federation.server.plan import Plan, Track
from training.federation.server.round_loop import choose_cohort
from training.updates.settings import SecureAggregationConfig

NAMES = tuple(f"c{number:03d}" for number in range(100))
RARE = ("c003", "c050", "c099")


def holds(name):
    return {"light": (5, 5), **({"dark": (3, 1)} if name in RARE else {})}


TRACK = Track("global", NAMES, NAMES, ("light", "dark"), pictures={name: holds(name) for name in NAMES})


def plan_of(share, masks=None, seed=3):
    return Plan(
        stage="0-federate",
        rounds=2,
        tracks=(TRACK,),
        travels=(),
        stays=(),
        exchange=NoExchange(),
        aggregator=FedAvg(),
        participation=0.1,
        min_clients=None,
        average_at_end=False,
        split="validation",
        seed=seed,
        masked_counts=masks,
        evaluation_participation=share,
    )


def test_a_stratum_is_of_the_rarest_subgroup_that_its_clients_hold():
    strata = strata_of(NAMES, TRACK.pictures)
    assert strata[0] == RARE
    assert sorted(strata[0] + strata[1]) == list(NAMES)
    assert strata_of(("a", "b"), {}) == [("a", "b")]


def test_every_subgroup_is_in_every_round_and_each_client_stands_for_its_stratum():
    for round_ in range(1, 30):
        cohort = evaluation_cohort(plan_of(0.05), TRACK, round_)
        rare, others = cohort.strata
        assert set(rare.asked) == set(RARE)
        assert len(others.asked) == 5  # a twentieth of 97
        assert cohort.of == 100


def test_a_plain_draw_mostly_misses_the_rare_subgroup():
    """The control: without strata, 5 of 100 have none of the three in four rounds of five."""
    one = replace(TRACK, pictures={})
    missed = [not set(RARE) & set(evaluation_cohort(plan_of(0.05), one, r).asked) for r in range(1, 41)]
    assert sum(missed) > 20


def test_the_draw_follows_from_the_seed_changes_with_the_round_and_is_not_that_of_fit():
    first = evaluation_cohort(plan_of(0.1), TRACK, 1)
    assert evaluation_cohort(plan_of(0.1), TRACK, 1) == first
    assert evaluation_cohort(plan_of(0.1), TRACK, 2) != first
    assert evaluation_cohort(plan_of(0.1, seed=4), TRACK, 1) != first
    fitted = set(choose_cohort(TRACK, plan_of(0.1), 1))
    judged = set(first.asked) - set(RARE)
    assert not judged <= fitted
    changed = replace(plan_of(0.1), participation=0.5)
    assert evaluation_cohort(changed, TRACK, 1) == first


def test_everybody_is_asked_by_default():
    assert evaluation_cohort(plan_of(1.0), TRACK, 1).asked == NAMES


def test_under_masks_the_cohort_is_that_of_the_whole_stage_and_holds_the_rare_subgroup():
    masks = SecureAggregationConfig()
    cohorts = {evaluation_cohort(plan_of(0.1, masks), TRACK, round_).asked for round_ in range(1, 6)}
    (asked,) = cohorts
    assert len(asked) == 10
    assert set(asked) & set(RARE)


@dataclass(frozen=True)
class Case:
    clients: int
    share: float
    asked: int


@pytest.mark.parametrize(
    "case",
    [
        Case(10, 0.9, 10),  # 9 of 10: with the sum of all, the tenth would be told by subtraction
        Case(10, 0.8, 10),
        Case(10, 0.7, 7),
        Case(10, 0.1, 3),  # never fewer than a sum is of
        Case(4, 0.5, 4),
    ],
)
def test_under_masks_no_sum_is_of_few_and_none_leaves_out_few(case):
    names = NAMES[: case.clients]
    track = Track("global", names, names, ("light",), pictures={name: {"light": (1, 1)} for name in names})
    cohort = evaluation_cohort(plan_of(case.share, SecureAggregationConfig(fewest=3)), track, 1)
    assert len(cohort.asked) == case.asked
