"""Cells of class and subgroup, and the suppression of small ones."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from registry.bundle.labels import Label
from training.algorithms.objectives.epochs import draw_probabilities
from training.data.cells import (
    UNDECLARED,
    Cells,
    CellWeights,
    count_by_subgroup,
    in_subgroup,
    name_losses,
    suppress_small_cells,
    unsuppressed,
)
from training.data.dataset import Examples
from training.errors import JobError

SIZES = st.lists(st.integers(0, 40), max_size=8).map(lambda sizes: np.array(sizes, dtype=np.int64))


def disclosed(sizes, minimum):
    """The values disclosed where each picture is of its own patient."""
    of_each = np.repeat(np.arange(len(sizes)), sizes)
    return suppress_small_cells(of_each, np.arange(len(of_each)), len(sizes), minimum)


def test_by_hand():
    assert disclosed(np.array([30, 12, 0, 9]), 10) == [0]  # 9 left over: 12 is kept back too
    assert disclosed(np.array([30, 12, 6, 9]), 10) == [0, 1]  # 15 are left over
    assert disclosed(np.array([30, 12]), 10) == [0, 1]
    assert disclosed(np.array([30, 1]), 10) == []
    assert disclosed(np.array([9, 9]), 10) == []


@given(SIZES, st.integers(1, 15))
def test_neither_a_part_nor_what_is_left_over_is_small(sizes, minimum):
    told = disclosed(sizes, minimum)
    assert all(sizes[number] >= minimum for number in told)
    rest = sizes.sum() - sizes[told].sum()
    assert rest == 0 or rest >= minimum or not told
    # No more than one is kept back beyond those that are too few.
    assert len(told) >= (sizes >= minimum).sum() - 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=60), st.integers(1, 8))
def test_whoever_is_told_of_is_one_of_several_patients(drawn, minimum):
    of_each, people = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    told = suppress_small_cells(of_each, people, 5, minimum)
    assert all(len(set(people[of_each == value])) >= minimum for value in told)
    rest = len(set(people[~np.isin(of_each, told)]))
    assert rest == 0 or rest >= minimum or not told


def test_parts_are_the_examples_that_have_the_trait():
    n = 9
    traits = np.stack([np.arange(n) % 2, np.zeros(n, np.int64)], axis=1)
    index = np.arange(n)
    examples = Examples(np.zeros((n, 2, 2, 3), np.uint8), index, index % 2, index * 0, index, traits)
    columns = {"sex": ("female", "male"), "site": ("face",)}
    told = unsuppressed(examples, columns, min_count=4)
    assert set(told) == {("sex", "female"), ("sex", "male"), ("site", "face")}
    np.testing.assert_array_equal(told["sex", "male"], index % 2 == 1)
    some = examples.where(index > 3)  # three women are left and two men
    assert set(unsuppressed(some, columns, min_count=4)) == {("site", "face")}
    bare = Examples(
        *(getattr(examples, name) for name in ("images", "rows", "labels", "subgroups", "lesions"))
    )
    assert unsuppressed(bare, columns, min_count=4) == {}


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


def disclosed_cells(cells, mine, least):
    return {name for name in cells.names if name in cells.disclosed(mine, least)}


def test_of_few_patients_nothing_is_told_nor_does_it_follow_from_the_rest():
    cells = Cells.of("malignancy", LABELS, PLACES)
    # Light: 6 others and 3 malignant ones. Dark: 5 others and 1 malignant one.
    mine = examples([0] * 6 + [1] * 3 + [0] * 5 + [1], [0] * 9 + [1] * 6)
    assert disclosed_cells(cells, mine, 1) == {
        *("other, light", "malignant, light", "other, dark", "malignant, dark"),
    }
    # The sum over dark is told as well: with the 5 others it would tell the one malignant picture.
    assert disclosed_cells(cells, mine, 3) == {"other, light", "malignant, light"}
    assert disclosed_cells(cells, mine, 4) == set()


def test_patients_are_counted_and_not_pictures():
    cells = Cells.of("malignancy", LABELS, PLACES)
    mine = examples([1] * 5 + [0] * 5, [0] * 10, people=[7, 7, 7, 7, 8, 1, 2, 3, 4, 5])
    assert disclosed_cells(cells, mine, 2) == {"other, light", "malignant, light"}
    assert disclosed_cells(cells, mine, 3) == set()


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


NAMES = ("light", "medium", "dark")
MEMBERS = np.array([2, -1, 0, 2, 2, -1, 0])


@pytest.fixture
def examples_subgroups():
    images = np.zeros((7, 2, 2, 3), dtype=np.uint8)
    return Examples(images, np.arange(7), np.arange(7) % 2, MEMBERS, np.arange(7))


def test_pictures_are_counted_by_name_and_absent_subgroups_are_left_out(examples_subgroups):
    assert count_by_subgroup(examples_subgroups, NAMES) == {"light": 2, "dark": 3, "undeclared": 2}
    assert count_by_subgroup(examples_subgroups.where(MEMBERS == -2), NAMES) == {}
    assert count_by_subgroup(examples_subgroups.where(MEMBERS == -1), ()) == {"undeclared": 2}


@pytest.mark.parametrize(
    ("name", "rows"), [("dark", [0, 3, 4]), ("light", [2, 6]), ("medium", []), (UNDECLARED, [1, 5])]
)
def test_the_examples_of_a_subgroup(examples_subgroups, name, rows):
    assert in_subgroup(examples_subgroups, NAMES, name).rows.tolist() == rows


def test_losses_are_means_and_what_was_not_drawn_has_none():
    sums, drawn = torch.tensor([3.0, 0.0, 1.0, 0.5]), torch.tensor([4.0, 0.0, 5.0, 1.0])
    assert name_losses(sums, drawn, NAMES) == pytest.approx({"light": 0.75, "dark": 0.2, "undeclared": 0.5})
