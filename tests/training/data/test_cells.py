"""Cells by hand: who is in which, what may be told of them, and what a picture of each counts."""

import numpy as np
import pytest

from registry.bundle.labels import Label
from training.algorithms.objectives.epochs import draw_probabilities
from training.data.cells import Cells, CellWeights
from training.data.dataset import Examples
from training.errors import JobError

LABELS = (
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="AKIEC", name="Actinic keratosis", malignancy="premalignant"),
    Label(code="BCC", name="Basal cell carcinoma", malignancy="malignant"),
)
PLACES = ("light", "dark")


def examples(labels, subgroups, people=None):
    n = len(labels)
    images = np.zeros((n, 2, 2, 3), dtype=np.uint8)
    people = np.arange(n) if people is None else np.array(people)
    return Examples(images, np.arange(n), np.array(labels), np.array(subgroups), people)


def test_a_picture_is_in_the_cell_of_its_side_and_subgroup():
    cells = Cells.of("malignancy", LABELS, PLACES)
    assert cells.names == (
        *("other, light", "malignant, light", "other, dark", "malignant, dark"),
        *("other, undeclared", "malignant, undeclared"),
    )
    mine = examples([0, 1, 2, 3, 3, 0], [0, 0, 1, 1, -1, -1])
    assert cells.numbers(mine).tolist() == [0, 1, 2, 3, 5, 4]
    assert cells.as_subgroups(mine).subgroups.tolist() == [0, 1, 2, 3, 5, 4]
    assert mine.subgroups.tolist() == [0, 0, 1, 1, -1, -1]


def test_a_class_may_be_a_kind_of_its_own():
    cells = Cells.of("class", LABELS, ())
    assert cells.names == tuple(f"{label.code}, undeclared" for label in LABELS)
    assert cells.numbers(examples([3, 0, 1], [-1, -1, -1])).tolist() == [3, 0, 1]


def test_pictures_by_subgroup_and_class_are_counted_by_cell():
    held = np.array([[5, 1, 2, 3], [0, 4, 0, 4], [7, 0, 0, 0]])  # light, dark, undeclared
    found = Cells.of("malignancy", LABELS, PLACES).count(held)
    assert list(found.values()) == [7, 4, 0, 8, 7, 0]
    assert list(found) == list(Cells.of("malignancy", LABELS, PLACES).names)
    assert list(Cells.of("class", LABELS, PLACES).count(held).values()) == held.flatten().tolist()


@pytest.mark.parametrize(("kept", "how"), [((0, 2), "NV, AKIEC none is"), ((1, 3), "MEL, BCC all are")])
def test_without_both_sides_malignancy_tells_nothing_apart(kept, how):
    labels = [LABELS[place] for place in kept]
    with pytest.raises(JobError, match=rf"of {how} malignant; set aggregator\.cells: class"):
        Cells.of("malignancy", labels, PLACES)
    assert len(Cells.of("class", labels, PLACES).kinds) == 2


def disclosed(cells, mine, least):
    return {name for name in cells.names if name in cells.disclosed(mine, least)}


def test_of_few_patients_nothing_is_told_nor_does_it_follow_from_the_rest():
    cells = Cells.of("malignancy", LABELS, PLACES)
    # Light: 6 others and 3 malignant ones. Dark: 5 others and 1 malignant one.
    mine = examples([0] * 6 + [1] * 3 + [0] * 5 + [1], [0] * 9 + [1] * 6)
    assert disclosed(cells, mine, 1) == {
        *("other, light", "malignant, light", "other, dark", "malignant, dark"),
    }
    # The sum over dark is told as well: with the 5 others it would tell the one malignant picture.
    assert disclosed(cells, mine, 3) == {"other, light", "malignant, light"}
    assert disclosed(cells, mine, 4) == set()


def test_patients_are_counted_and_not_pictures():
    cells = Cells.of("malignancy", LABELS, PLACES)
    mine = examples([1] * 5 + [0] * 5, [0] * 10, people=[7, 7, 7, 7, 8, 1, 2, 3, 4, 5])
    assert disclosed(cells, mine, 2) == {"other, light", "malignant, light"}
    assert disclosed(cells, mine, 3) == set()


MINE = examples(
    [0] * 40 + [1] * 5 + [3] * 15 + [0] * 8 + [2] * 2 + [1] * 3 + [0] * 4,
    [0] * 60 + [1] * 13 + [-1] * 4,
)


@pytest.mark.parametrize("sampling", ["uniform", "square-root", "class-balanced", "subgroup-balanced"])
def test_however_pictures_are_drawn_a_cell_counts_in_the_mean_as_its_weight_says(sampling):
    cells = Cells.of("malignancy", LABELS, PLACES)
    weights = {"other, light": 0.25, "malignant, light": 2.0, "other, dark": 0.5, "malignant, dark": 9.0}
    drawn = draw_probabilities(MINE.labels, sampling, MINE.subgroups)
    counts = CellWeights(cells, weights).of_each(MINE, drawn)
    numbers = cells.numbers(MINE)
    each = np.array([weights.get(cells.names[number], 1.0) for number in numbers])
    for number in range(len(cells.names)):
        here = numbers == number
        # The expected sum of what is drawn of a cell: w_g n_g / w n, whatever is drawn how often within it.
        assert (drawn * counts)[here].sum() == pytest.approx(each[here].sum() / each.sum())
        assert len(np.unique(counts[here])) <= 1
    if sampling == "uniform":
        assert counts == pytest.approx(each / each.mean())
    assert (drawn * counts).sum() == pytest.approx(1)
