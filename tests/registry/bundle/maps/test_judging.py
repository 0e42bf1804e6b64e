"""Maps are judged: one that shows what an answer hangs on passes, and one that only looks so does not."""

import numpy as np
import pytest

from registry.bundle.errors import GraphError
from registry.bundle.manifest.map_judgement import MapFigures, MapJudgement, SubgroupMapFigures
from registry.bundle.maps.covering import SHARES, covered
from registry.bundle.maps.judge import JudgedPicture, judge, look
from registry.bundle.maps.pointing import by_chance, points_at
from registry.bundle.maps.shuffled import shuffled
from registry.bundle.maps.verdict import checks
from registry.bundle.model_file.graph import Graph
from registry.bundle.question import Question
from tests.map_graphs import GRID, SIZE, spot, spot_graph, spots


def passed(judgement):
    return {(one.name, one.subgroup): one.passed for one in checks(judgement)}


def test_a_map_that_shows_what_counts_passes_on_every_tone():
    judgement = judge(spot_graph(), spots(150), seed=1, code_version="1")
    assert all(passed(judgement).values())
    assert {one.subgroup for one in judgement.by_subgroup} == {"dark", "medium", "light"}
    overall = judgement.overall
    assert overall.hits == overall.masks == 150
    assert overall.chance == pytest.approx(1 / GRID**2)
    assert max(overall.by_map) < 0.55 < overall.score  # of a covered spot nothing is left


@pytest.mark.parametrize("lie", ["inverted", "nothing"])
def test_a_map_that_shows_something_else_does_not(lie):
    found = passed(judge(spot_graph(lie), spots(150), seed=1, code_version="1"))
    assert not found["against elsewhere", None]
    assert not found["points at the lesion", None]


def test_a_map_that_needs_no_weights_does_not_beat_shuffled_ones(monkeypatch):
    """An edge detector finds spots, too: only beside shuffled weights is it seen that nothing was learnt."""
    monkeypatch.setattr("registry.bundle.maps.judge.shuffled", lambda content, seed: content)
    found = passed(judge(spot_graph(), spots(150), seed=1, code_version="1"))
    assert found["against elsewhere", None]
    assert not found["against shuffled weights", None]


def test_what_is_judged_is_the_class_that_the_model_answers():
    (red,) = look(Graph(spot_graph()), Graph(spot_graph()), [JudgedPicture(Question(spot(2, 1)[None]))], 0)
    (green,) = look(
        Graph(spot_graph()),
        Graph(spot_graph()),
        [JudgedPicture(Question(spot(2, 1, (60, 220, 60))[None]))],
        0,
    )
    assert red.score > 0.5
    assert green.score > 0.5
    assert np.all(red.curves[0] <= 0.5 + 1e-6)
    assert np.all(green.curves[0] <= 0.5 + 1e-6)


def test_nothing_is_judged_without_a_map(onnx_graph):
    picture = JudgedPicture(Question(np.zeros((1, 8, 8, 3), np.uint8)))
    with pytest.raises(GraphError, match="has no map"):
        judge(onnx_graph(), [picture], seed=0, code_version="1")


def test_covering_hides_cells_in_their_order_and_nothing_else():
    pixels = np.random.default_rng(0).integers(0, 256, (10, 10, 3), dtype=np.uint8)
    order = np.array([5, 0, 1, 2, 3, 4, 6, 7, 8])
    made = covered(pixels, order, (3, 3), (0.1, 0.2, 1.0))
    middle = np.zeros((10, 10), bool)
    middle[4:7, 7:] = True  # the cell of row 1, column 2: pixel p is of cell ⌊3 p / 10⌋
    np.testing.assert_array_equal(made[0][~middle], pixels[~middle])
    np.testing.assert_array_equal(np.unique(made[0][middle], axis=0), [pixels[~middle].mean(0).round()])
    assert (made[1][:4, :4] == made[1][0, 0]).all()
    np.testing.assert_array_equal(made[2], pixels)  # nothing is left to take a colour from


def test_the_strongest_cell_is_held_against_the_lesion():
    mask = np.zeros((12, 6), bool)
    mask[9:, :2] = True
    grid = np.zeros((4, 3))
    grid[3, 0] = 1
    assert points_at(grid, mask)
    assert not points_at(grid[::-1], mask)
    assert not points_at(grid[:, ::-1], mask)
    assert by_chance((4, 3), mask) == pytest.approx(1 / 12)


def test_shuffled_weights_keep_their_values_and_lose_their_places():
    content = spot_graph()
    other = shuffled(content, 3)
    assert len(other) == len(content)
    assert other != content
    assert shuffled(content, 3) == other != shuffled(content, 4)
    graph = Graph(other)
    pixels = spot(1, 1)[None]
    assert graph.map_shape == (GRID, GRID)
    assert not np.allclose(graph.run(pixels).logits, Graph(content).run(pixels).logits)
    assert sorted(content) == sorted(other)


def figures(n=150, wins=150.0, shuffled_wins=150.0, hits=150):
    curve = (0.1,) * len(SHARES)
    return {
        "n": n,
        "against_elsewhere": wins,
        "against_others": float(n),
        "against_shuffled": shuffled_wins,
        "score": 0.9,
        "by_map": curve,
        "by_elsewhere": curve,
        "by_others": curve,
        "by_shuffled": curve,
        "masks": n,
        "hits": hits,
        "chance": 0.2,
    }


def judgement(overall=None, by_subgroup=()):
    groups = tuple(SubgroupMapFigures(**one) for one in by_subgroup)
    overall = MapFigures(**(overall or figures()))
    digest = "sha256:" + "0" * 64
    return MapJudgement(model=digest, overall=overall, by_subgroup=groups, seed=0, code_version="1")


def test_limits_are_of_the_lower_end_of_the_interval():
    """100 of 150 is .667 with .588 to .737 (Wilson by hand), 105 is .7 with .622 to .767."""
    assert not checks(judgement(figures(wins=100.0)))[0].passed
    near = checks(judgement(figures(wins=105.0)))[0]
    assert near.passed
    assert near.interval == pytest.approx((0.622, 0.767), abs=0.001)
    assert not checks(judgement(figures(shuffled_wins=80.0)))[2].passed
    assert not checks(judgement(figures(hits=35)))[3].passed


def test_one_skin_tone_on_which_maps_fail_refuses_them_and_one_with_few_pictures_does_not():
    poor = {**figures(40, 22.0, 40.0, 40), "subgroup": "dark"}
    few = {**figures(20, 0.0, 0.0, 0), "subgroup": "medium"}
    found = passed(judgement(by_subgroup=(poor, few)))
    assert found["against elsewhere", "dark"] is False
    assert ("against elsewhere", "medium") not in found


@pytest.mark.parametrize(
    "wrong",
    [
        {"against_elsewhere": 151.0},
        {"against_others": 10.25},
        {"hits": 151},
        {"chance": None},
        {"score": 1.5},
    ],
)
def test_figures_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"counted|hits|chance|less than"):
        MapFigures(**{**figures(), **wrong})


def test_single_patients_of_a_subgroup_are_not_told():
    alone = [
        JudgedPicture(one.question, "rare" if place < 4 else "common") for place, one in enumerate(spots(20))
    ]
    found = judge(spot_graph(), alone, seed=0, code_version="1")
    assert [one.subgroup for one in found.by_subgroup] == ["common"]
    assert found.overall.n == 20
    assert SIZE == 32
