"""The price of fairness against brute force over every choice, and by hand."""

from fractions import Fraction
from itertools import pairwise, product
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalization.selection.select import SelectionConfig, frontier, frontier_facts, select

PAPER = SelectionConfig(rule="paper")
VALIDATION_SIZES = (7, 20, 13, 9)  # pictures per subgroup, so that accuracies do not share a denominator

right_counts = st.lists(
    st.integers(0, 3).flatmap(
        lambda i: st.lists(st.integers(0, VALIDATION_SIZES[i]), min_size=1, max_size=6).map(
            lambda right: (VALIDATION_SIZES[i], right)
        )
    ),
    min_size=1,
    max_size=4,
)
rules = st.sampled_from([PAPER, SelectionConfig()])


def accuracies_of(groups):
    return {f"group {i}": {e: k / n for e, k in enumerate(right)} for i, (n, right) in enumerate(groups)}


def brute_force(groups, rule):
    """By spread, the highest minimum, the highest sum and the earliest epochs of all choices up to it."""
    allowed = [[e for e, k in enumerate(right) if rule == PAPER or k >= right[0]] for _, right in groups]
    points = []
    for epochs in product(*allowed):
        values = [Fraction(groups[i][1][e], groups[i][0]) for i, e in enumerate(epochs)]
        points.append((max(values) - min(values), min(values), sum(values), epochs))
    steps = []
    for allowed_spread in sorted({spread for spread, *_ in points}):
        within = [chosen for chosen in points if chosen[0] <= allowed_spread]
        # Minimum and sum are each the highest by itself: no choice trades one for the other.
        worst, total = max(chosen[1] for chosen in within), max(chosen[2] for chosen in within)
        best = [chosen[3] for chosen in within if chosen[1:3] == (worst, total)]
        if not steps or (worst, total) != steps[-1][1:3]:
            steps.append((allowed_spread, worst, total, min(best, key=lambda epochs: (sum(epochs), epochs))))
    return steps


@given(right_counts, rules)
def test_every_step_equals_brute_force(groups, rule):
    expected = brute_force(groups, rule)
    found = frontier(accuracies_of(groups), rule)

    assert [tuple(chosen.epochs.values()) for chosen in found] == [epochs for *_, epochs in expected]
    for chosen, (spread, worst, total, _) in zip(found, expected, strict=True):
        assert chosen.spread == pytest.approx(float(spread), abs=1e-12)
        assert chosen.worst == pytest.approx(float(worst), abs=1e-12)
        assert chosen.mean == pytest.approx(float(total) / len(groups), abs=1e-12)


@given(right_counts, rules)
def test_the_mean_rises_and_the_minimum_never_falls_up_to_every_best_epoch(groups, rule):
    found = frontier(accuracies_of(groups), rule)

    for before, after in pairwise(found):
        assert before.spread < after.spread
        assert before.worst <= after.worst
        assert before.mean < after.mean
    assert list(found[-1].accuracies.values()) == [max(right) / n for n, right in groups]


@given(right_counts, rules, st.sampled_from([0.0, 0.05, 0.1, 0.25, 1.0]))
def test_the_selection_of_any_band_is_on_the_frontier(groups, rule, band):
    accuracies = accuracies_of(groups)
    rule = rule.model_copy(update={"band": band})
    within = [chosen for chosen in frontier(accuracies, rule) if chosen.spread <= band + 1e-12]

    expected = within[-1] if within else frontier(accuracies, rule)[0]
    assert select(accuracies, rule).chosen == expected


def test_a_narrower_spread_costs_both_by_hand():
    accuracies = {"light": {0: 0.7, 1: 0.9, 2: 0.8, 3: 0.6}, "dark": {0: 0.5, 1: 0.6, 2: 0.55}}

    steps = frontier(accuracies, PAPER)

    # light has 0.6 where dark has its best: a spread of 0 costs light 0.3 and dark nothing.
    assert [chosen.epochs for chosen in steps] == [
        {"light": 3, "dark": 1},
        {"light": 0, "dark": 1},
        {"light": 2, "dark": 1},
        {"light": 1, "dark": 1},
    ]
    assert [chosen.spread for chosen in steps] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert [chosen.worst for chosen in steps] == pytest.approx([0.6, 0.6, 0.6, 0.6])
    assert [chosen.mean for chosen in steps] == pytest.approx([0.6, 0.65, 0.7, 0.75])


def test_the_floor_takes_the_steps_that_would_harm_away():
    accuracies = {"light": {0: 0.7, 1: 0.9, 2: 0.8, 3: 0.6}, "dark": {0: 0.5, 1: 0.6, 2: 0.55}}

    assert frontier(accuracies) == frontier(accuracies, PAPER)[1:]


def test_one_subgroup_has_one_step_its_best_epoch():
    (only,) = frontier({"all": {0: 0.5, 1: 0.8, 2: 0.8}})

    assert (only.epochs, only.spread, only.worst, only.mean) == ({"all": 1}, 0.0, 0.8, 0.8)


def test_two_hundred_epochs_of_six_subgroups_take_under_a_second():
    generator = np.random.default_rng(0)
    accuracies = {
        str(group): {epoch: int(generator.integers(300, size)) / size for epoch in range(201)}
        for group, size in enumerate((589, 961, 661, 556, 306, 827))
    }

    start = process_time()
    frontier(accuracies, PAPER)

    assert process_time() - start < 1


def test_the_summary_tells_both_frontiers_where_they_differ():
    accuracies = {"light": {0: 0.75, 1: 0.5}, "dark": {0: 0.5}}

    told = frontier_facts(accuracies, SelectionConfig())

    apart = {"spread": 0.25, "worst": 0.5, "mean": 0.625, "epochs": {"light": 0, "dark": 0}}
    even = {"spread": 0.0, "worst": 0.5, "mean": 0.5, "epochs": {"light": 1, "dark": 0}}
    assert told == {"frontier": [apart], "frontier_paper": [even, apart]}
    assert frontier_facts(accuracies, PAPER) == {"frontier": [even, apart], "frontier_paper": None}
