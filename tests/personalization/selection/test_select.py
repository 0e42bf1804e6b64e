"""The exact search against brute force, the paper's table, and the promises of the floor.

The price of fairness against brute force over every choice, and by hand.
"""

from fractions import Fraction
from itertools import product
from time import process_time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalization.selection import SelectionConfig, frontier, frontier_facts, select

VALIDATION_SIZES = (7, 20, 13, 9)  # pictures per subgroup, so that accuracies do not share a denominator

right_counts = st.lists(
    st.integers(0, 3).flatmap(
        lambda i: st.lists(st.integers(0, VALIDATION_SIZES[i]), min_size=1, max_size=5).map(
            lambda right: (VALIDATION_SIZES[i], right)
        )
    ),
    min_size=1,
    max_size=4,
)
bands = st.sampled_from(["0", "0.05", "0.1", "0.25", "1"])


def accuracies_of(groups):
    return {f"group {i}": {e: k / n for e, k in enumerate(right)} for i, (n, right) in enumerate(groups)}


def every_choice(groups, floor):
    """Spread, minimum, sum and epochs of every combination."""
    allowed = [[e for e, k in enumerate(right) if not floor or k >= right[0]] for _, right in groups]
    points = []
    for epochs in product(*allowed):
        values = [Fraction(groups[i][1][e], groups[i][0]) for i, e in enumerate(epochs)]
        points.append((max(values) - min(values), min(values), sum(values), epochs))
    return points


def brute_force(groups, band, *, floor):
    """Every combination, compared in whole numbers of right answers."""
    points = every_choice(groups, floor)
    smallest = min(spread for spread, *_ in points)
    width = max(band, smallest)
    within = [chosen for chosen in points if chosen[0] <= width]
    best = max(within, key=lambda c: (c[1], c[2], [-e for e in c[3]]))
    return best[3], smallest


@given(right_counts, bands)
def test_either_rule_equals_brute_force(groups, band):
    accuracies = accuracies_of(groups)
    alone, smallest_alone = brute_force(groups, Fraction(band), floor=False)
    epochs, smallest = brute_force(groups, Fraction(band), floor=True)
    paper, floor = (
        select(accuracies, SelectionConfig(band=float(band), rule=of)) for of in ("paper", "floor")
    )

    assert tuple(paper.epochs.values()) == alone
    assert paper.smallest_spread == pytest.approx(float(smallest_alone), abs=1e-12)
    assert paper.within_band == (smallest_alone <= Fraction(band))
    assert (paper.band_alone, paper.cost) == (None, {})

    assert tuple(floor.epochs.values()) == epochs
    assert floor.within_band == (smallest <= Fraction(band))
    assert all(floor.accuracies[name] >= start for name, start in floor.global_accuracies.items())
    assert (floor.band_alone is None) == (alone == epochs)
    if floor.band_alone is not None:
        assert tuple(floor.band_alone.epochs.values()) == alone
        assert floor.floor_binding


@given(right_counts)
def test_order_of_subgroups_and_epochs_does_not_matter(groups):
    accuracies = accuracies_of(groups)
    turned = {name: dict(reversed(by_epoch.items())) for name, by_epoch in reversed(accuracies.items())}

    assert select(turned, SelectionConfig()).epochs == select(accuracies, SelectionConfig()).epochs


def test_table_v_of_the_paper():
    """Best and selected accuracies as candidates: type 1 ends at 0.709, so [0.709, 0.759] is the window."""
    accuracies = {
        "1": {0: 0.55, 175: 0.709},
        "2": {0: 0.55, 160: 0.740},
        "3": {0: 0.60, 166: 0.738},
        "4": {0: 0.60, 52: 0.746, 90: 0.772},
        "5": {0: 0.50, 27: 0.738, 95: 0.809},
        "6": {0: 0.45, 184: 0.725},
    }

    selection = select(accuracies, SelectionConfig(rule="paper"))

    assert selection.epochs == {"1": 175, "2": 160, "3": 166, "4": 52, "5": 27, "6": 184}
    assert selection.within_band
    assert selection.spread == pytest.approx(0.746 - 0.709)
    assert np.var(list(selection.accuracies.values())) == pytest.approx(0.00015, abs=5e-6)


def test_equality_is_not_bought_by_harming_the_better_served():
    accuracies = {"light": {0: 0.9, 1: 0.65}, "dark": {0: 0.6, 1: 0.62}}

    paper = select(accuracies, SelectionConfig(rule="paper"))
    floor = select(accuracies, SelectionConfig(rule="floor"))

    assert paper.epochs == {"light": 1, "dark": 1}
    assert paper.within_band
    assert floor.epochs == {"light": 0, "dark": 1}
    assert not floor.within_band
    assert floor.floor_binding == ("light",)
    assert floor.band_alone == paper.chosen
    assert floor.cost == pytest.approx({"light": 0.25, "dark": 0.0})
    assert "light from 0.900 to 0.650" in floor.explanation
    assert "the floor refused it" in floor.explanation
    assert "light keeps the global model" in floor.explanation


def test_a_spread_of_exactly_the_band_is_within_it_and_equal_accuracies_take_the_earliest_epoch():
    """In doubles 0.75 − 0.70 is 0.050000000000000044."""
    assert select({"a": {0: 0.70}, "b": {0: 0.75}}, SelectionConfig(band=0.05)).within_band
    equal = select({"a": {0: 0.5, 4: 0.8, 9: 0.8}, "b": {0: 0.8, 3: 0.8}}, SelectionConfig())
    assert equal.epochs == {"a": 4, "b": 0}


def test_smallest_spread_is_taken_where_the_band_cannot_be_met():
    selection = select({"a": {0: 0.2, 1: 0.3}, "b": {0: 0.9, 1: 0.8}}, SelectionConfig(rule="paper"))

    assert selection.epochs == {"a": 1, "b": 1}
    assert not selection.within_band
    assert selection.smallest_spread == pytest.approx(0.5)
    assert "wider than the band of 0.05" in selection.explanation


def test_two_hundred_epochs_of_six_subgroups_take_under_a_second():
    generator = np.random.default_rng(0)
    accuracies = {
        str(group): {epoch: int(generator.integers(300, size)) / size for epoch in range(201)}
        for group, size in enumerate((589, 961, 661, 556, 306, 827))
    }

    start = process_time()
    select(accuracies, SelectionConfig())

    assert process_time() - start < 1


PAPER = SelectionConfig(rule="paper")
rules = st.sampled_from([PAPER, SelectionConfig()])


def brute_force_frontier(groups, rule):
    """By spread, the highest minimum, the highest sum and the earliest epochs of all choices up to it."""
    points = every_choice(groups, rule != PAPER)
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
@example([(10, [5, 7]), (10, [6, 8])], PAPER)  # two choices of one spread
def test_every_step_equals_brute_force(groups, rule):
    expected = brute_force_frontier(groups, rule)
    found = frontier(accuracies_of(groups), rule)

    assert [tuple(chosen.epochs.values()) for chosen in found] == [epochs for *_, epochs in expected]
    for chosen, (spread, worst, total, _) in zip(found, expected, strict=True):
        assert chosen.spread == pytest.approx(float(spread), abs=1e-12)
        assert chosen.worst == pytest.approx(float(worst), abs=1e-12)
        assert chosen.mean == pytest.approx(float(total) / len(groups), abs=1e-12)


def test_the_summary_tells_both_frontiers_where_they_differ():
    accuracies = {"light": {0: 0.75, 1: 0.5}, "dark": {0: 0.5}}

    told = frontier_facts(accuracies, SelectionConfig())

    apart = {"spread": 0.25, "worst": 0.5, "mean": 0.625, "epochs": {"light": 0, "dark": 0}}
    even = {"spread": 0.0, "worst": 0.5, "mean": 0.5, "epochs": {"light": 1, "dark": 0}}
    assert told == {"frontier": [apart], "frontier_paper": [even, apart]}
    assert frontier_facts(accuracies, PAPER) == {"frontier": [even, apart], "frontier_paper": None}
