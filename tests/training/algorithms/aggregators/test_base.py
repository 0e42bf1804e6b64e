"""Weights of subgroups and their spread over clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.aggregators.base import JobContext, Report
from training.algorithms.aggregators.weighting import FedAuto, FedAvg, FedEqual, FedExp, FedLoss

UNITS = [FedEqual, FedLoss, FedExp, FedAuto]
MIXED = [
    Report("a", {"light": 30, "dark": 10}, {"light": 0.2, "dark": 2.0}),
    Report("b", {"dark": 50}, {"dark": 1.0}),
    Report("c", {"light": 10, "undeclared": 4}, {"light": 1.0, "undeclared": 0.7}),
]
# By hand: L_s = Σ N L / Σ N.
LIGHT = (30 * 0.2 + 10 * 1.0) / 40
DARK = (10 * 2.0 + 50 * 1.0) / 60
UNDECLARED = 0.7


def by_hand(light, dark, undeclared):
    """w_c = Σ_s w_s N_cs / Σ_i N_is of `MIXED`."""
    return {
        "a": light * 30 / 40 + dark * 10 / 60,
        "b": dark * 50 / 60,
        "c": light * 10 / 40 + undeclared * 4 / 4,
    }


def test_subgroup_losses_are_means_over_pictures_and_weights_go_to_those_who_hold_them():
    losses = np.array([LIGHT, DARK, UNDECLARED])
    aggregation, _ = FedLoss(unit="subgroup").aggregate(MIXED, {})
    assert aggregation.clients == pytest.approx(by_hand(*losses / losses.sum()), rel=1e-14)

    raised = np.exp(2 * losses)
    aggregation, _ = FedExp(m=2).aggregate(MIXED, {})
    assert aggregation.clients == pytest.approx(by_hand(*raised / raised.sum()), rel=1e-14)


@pytest.mark.parametrize("kind", UNITS)
def test_a_subgroup_of_which_nobody_holds_a_picture_weighs_nothing(kind):
    with_none = [
        Report(one.client, {**one.num_examples, "medium": 0}, {**one.losses, "medium": 9.0}) for one in MIXED
    ]
    assert kind(unit="subgroup").aggregate(with_none, kind().initial_state()) == kind(
        unit="subgroup"
    ).aggregate(MIXED, kind().initial_state())


def test_over_clients_a_clients_loss_is_the_mean_over_its_pictures():
    losses = np.array([(30 * 0.2 + 10 * 2.0) / 40, 1.0, (10 * 1.0 + 4 * 0.7) / 14])
    aggregation, _ = FedLoss(unit="client").aggregate(MIXED, {})
    np.testing.assert_allclose(list(aggregation.clients.values()), losses / losses.sum(), rtol=1e-14)


@pytest.mark.parametrize("kind", UNITS)
def test_with_one_subgroup_at_each_client_subgroup_weights_are_the_papers_client_weights(kind):
    reports = [Report(f"c{i}", {f"s{i}": 7 * i + 1}, {f"s{i}": 0.4 * i + 0.1}) for i in range(5)]
    state = kind().initial_state()
    assert kind(unit="subgroup").aggregate(reports, state) == kind(unit="client").aggregate(reports, state)


@pytest.mark.parametrize("kind", UNITS)
def test_the_default_is_subgroups_where_there_are_any_to_tell_apart(kind):
    state = kind().initial_state()
    assert kind().aggregate(MIXED, state) == kind(unit="subgroup").aggregate(MIXED, state)
    alike = [Report(name, {"undeclared": n}, {"undeclared": n / 10}) for name, n in (("a", 3), ("b", 8))]
    assert kind().aggregate(alike, state) == kind(unit="client").aggregate(alike, state)


def test_a_subgroup_of_which_nothing_was_drawn_takes_the_mean_over_all_pictures():
    reports = [
        Report("a", {"light": 30, "dark": 2}, {"light": 0.5}),
        Report("b", {"medium": 10}, {"medium": 1.3}),
    ]
    overall = (30 * 0.5 + 10 * 1.3) / 40
    losses = np.array([0.5, overall, 1.3])  # light, dark, medium
    light, dark, medium = losses / losses.sum()
    aggregation, _ = FedLoss().aggregate(reports, {})
    assert aggregation.clients == pytest.approx({"a": light + dark, "b": medium}, rel=1e-14)


def test_a_share_of_a_subgroup_that_was_not_drawn_keeps_its_size_but_not_its_say():
    reports = [
        Report("a", {"light": 30}, {"light": 0.5}),
        Report("b", {"light": 10, "dark": 5}, {"dark": 2.0}),
    ]
    # light's loss is a's alone; b still holds a quarter of its pictures.
    aggregation, _ = FedLoss().aggregate(reports, {})
    assert aggregation.clients == pytest.approx({"a": 0.2 * 30 / 40, "b": 0.2 * 10 / 40 + 0.8}, rel=1e-14)


def test_when_nothing_was_drawn_anywhere_units_weigh_the_same():
    reports = [Report("a", {"light": 30}, {}), Report("b", {"dark": 5}, {})]
    assert FedExp().aggregate(reports, {})[0].clients == {"a": 0.5, "b": 0.5}


share = st.tuples(st.integers(1, 10_000), st.one_of(st.none(), st.floats(0, 1000)))
cohorts = st.lists(
    st.dictionaries(st.sampled_from(["light", "medium", "dark", "undeclared"]), share, min_size=1),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("kind", [FedAvg, *UNITS])
@given(cohort=cohorts)
def test_weights_are_a_mixture(kind, cohort):
    reports = [
        Report(
            f"client {place}",
            {name: n for name, (n, _) in held.items()},
            {name: loss for name, (_, loss) in held.items() if loss is not None},
        )
        for place, held in enumerate(cohort)
    ]
    aggregation, _ = kind().aggregate(reports, kind().initial_state())
    assert all(weight >= 0 for weight in aggregation.clients.values())
    assert sum(aggregation.clients.values()) == pytest.approx(1, rel=1e-12)


def test_a_job_settles_the_unit_for_all_rounds_whoever_answers():
    """One client of one subgroup answers alone with another: the job's word counts, not the round's."""
    reports = [Report("a", {"dark": 10}, {"dark": 2.0}), Report("b", {"dark": 30}, {"dark": 1.0})]
    named = JobContext(("a", "b"), ("dark",), names_subgroups=True, learning_rate=0.1)
    unnamed = JobContext(("a", "b"), ("undeclared",), names_subgroups=False, learning_rate=0.1)
    assert FedEqual().for_job(named).aggregate(reports, {})[0].clients == {"a": 0.25, "b": 0.75}
    assert FedEqual().for_job(unnamed).aggregate(reports, {})[0].clients == {"a": 0.5, "b": 0.5}
    assert FedEqual(unit="client").for_job(named).unit == "client"
