"""Thresholds of nodes of the tree of diagnoses: what is counted at a level, proposed and taken."""

import numpy as np
import pytest
from scipy.stats import binom

from personalization.calibration.at_thresholds import LEVEL, CountsAt
from personalization.calibration.conclusions import LevelTest, count_nodes, propose_level, share_of
from registry.bundle.conclusions import Tree
from registry.bundle.score_bins import SCORE_BINS, score_bin
from tests.measured import GROUPED

TREE = Tree(GROUPED)
NODES = TREE.levels[1]
N = 600


@pytest.fixture
def lesions():
    """Probabilities, labels and what is ruled out of made-up lesions, of a patient each."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([0.5] * len(GROUPED), N).astype(np.float32)
    labels = np.array([rng.choice(len(GROUPED), p=row / row.sum()) for row in probabilities.astype(float)])
    return probabilities, labels, probabilities[:, 3] > 0.7


def counted(lesions, level, so_far, patients=None, smallest_cell=1):
    probabilities, labels, ruled_out = lesions
    patients = np.arange(N) if patients is None else patients
    return count_nodes(TREE, level, probabilities, labels, ruled_out, so_far, patients, smallest_cell)


@pytest.mark.parametrize("level", range(3))
def test_a_level_counts_what_finer_ones_left_over(lesions, level):
    """Whatever is named as thresholds of its own level and of coarser ones."""
    probabilities, labels, ruled_out = lesions
    so_far = np.full(len(TREE.nodes), int(score_bin(np.array(0.8))))
    finer = sum(map(len, TREE.levels[:level]))
    found = counted(lesions, level, so_far)
    places, bins = TREE.asked(level, probabilities, ruled_out)
    left = np.ones(N, dtype=bool)
    for before, own in enumerate(TREE.levels[:level]):
        asked, at = TREE.asked(before, probabilities, ruled_out)
        first = sum(map(len, TREE.levels[:before]))
        left &= ~((asked >= 0) & (at >= so_far[first : first + len(own)][asked]))
    assert finer == 0 or 0 < left.sum() < N, "the control"
    for place, node in enumerate(TREE.levels[level]):
        own = left & (places == place)
        for row, of in zip(found[place], (own, own & ~np.isin(labels, node.classes)), strict=True):
            np.testing.assert_array_equal(row, np.bincount(bins[of], minlength=SCORE_BINS))


def test_merged_histograms_show_no_smaller_share_that_is_wrong(lesions):
    so_far = np.full(len(TREE.nodes), SCORE_BINS)
    exact, merged = (counted(lesions, 0, so_far, smallest_cell=cell) for cell in (1, 5))
    exact, merged = (each[..., ::-1].cumsum(axis=-1) for each in (exact, merged))
    assert (merged[:, 0] <= exact[:, 0]).all()
    assert (merged[:, 1] >= exact[:, 1]).all()
    assert (merged != exact).any(axis=(1, 2)).all(), "the control"
    np.testing.assert_array_equal(merged[..., -1], exact[..., -1])


def test_of_a_node_with_few_patients_nothing_is_counted(lesions):
    so_far = np.full(len(TREE.nodes), SCORE_BINS)
    assert counted(lesions, 0, so_far, np.arange(N) % 5, 5).sum(axis=2).all()
    assert not counted(lesions, 0, so_far, np.arange(N) % 4, 5).any(), "many lesions of four patients"


def made(between):
    """Counts of a node at five thresholds, from the lowest: all and wrong ones between them."""
    return CountsAt(
        (100, 120, 140, 160, 180), np.array([[0, *(n for n, _ in between)], [0, *(x for _, x in between)]])
    )


@pytest.mark.parametrize(
    ("between", "taken"),
    [
        ([(60, 0)] * 5, (100, 300, 0)),
        ([(300, 0), (0, 0), (0, 0), (20, 12), (60, 0)], (180, 60, 0)),
        ([(300, 0), (0, 0), (0, 0), (0, 0), (30, 0)], None),
        ([(60, 60), (60, 2), (0, 0), (0, 0), (60, 0)], (120, 120, 2)),
    ],
    ids=["all", "no further than the first that is not shown", "the strictest has too few", "two wrong"],
)
def test_the_strictest_threshold_is_tested_first_and_the_first_that_is_not_shown_ends_it(between, taken):
    """At a third of the level's share each, as three nodes are tested, by the binomial distribution."""
    target, failures = 0.1, 0.05
    test = LevelTest(NODES, target, failures, ((100,),) * 3)
    rules = test.fit([made(between)] * 3)
    assert [rule.code for rule in rules] == ([] if taken is None else [node.code for node in NODES])
    for rule in rules:
        assert (rule.threshold_bin, rule.n, rule.wrong) == taken
        assert binom.cdf(rule.wrong, rule.n, rule.risk_high) == pytest.approx(failures / 3)
    shown = [
        binom.cdf(sum(x for _, x in between[at:]), sum(n for n, _ in between[at:]), target) <= failures / 3
        for at in range(5)
    ]
    assert (taken is None) is not shown[4]


def test_a_node_with_more_wrong_lesions_than_lesions_is_not_concluded():
    """Merged histograms may say so: they count wrong lesions at higher scores than all lesions."""
    test = LevelTest(NODES[:1], 0.9, 0.05, ((100,),))
    assert not test.fit([made([(0, 0), (0, 0), (0, 0), (0, 0), (30, 31)])])
    assert test.fit([made([(0, 0), (0, 0), (0, 0), (0, 0), (30, 0)])]), "the control"


def test_a_share_is_divided_among_nodes_that_can_show_anything():
    """Of a tenth, 29 lesions show it at .05, 36 at .025 and 40 at .0167."""
    rows = np.zeros((3, SCORE_BINS), dtype=np.int64)
    for numbers, able in (((40, 40, 39), 2), ((41, 41, 41), 3), ((45, 5, 0), 1), ((28, 28, 28), 0)):
        rows[:, 200] = numbers
        test = propose_level(NODES, rows, 0.1, 0.05)
        assert test.able == sum((0.9**n <= 0.05 / max(able, 1)) for n in numbers), numbers
        assert [bool(each) for each in test.proposed] == [able > 0 and 0.9**n <= 0.05 / able for n in numbers]


def test_each_proposal_concludes_another_fifth():
    row = np.zeros((1, SCORE_BINS), dtype=np.int64)
    row[0, 100:300] = 1
    (proposed,) = propose_level(NODES[:1], row, 0.1, 0.05).proposed
    assert proposed == (100, 140, 180, 220, 260)
    (proposed,) = propose_level(NODES[:1], row, 0.05, 0.05).proposed
    assert proposed == (100, 140, 180, 220), "the last 40 lesions could not show a twentieth"


def test_levels_share_what_is_left():
    assert share_of(0, 3, 0.0) == pytest.approx((1 - LEVEL) / 3)
    assert share_of(1, 3, 0.0) == pytest.approx((1 - LEVEL) / 2), "the first tested nothing"
    assert share_of(2, 3, 0.02) == pytest.approx(1 - LEVEL - 0.02)
