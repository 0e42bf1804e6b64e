"""What a client tells after patients withdrew: numbers of before, or nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from training.algorithms.exchanges.base import PREFIX
from training.algorithms.objectives.dp_sgd import STEPS
from training.algorithms.objectives.tokenizers.codebook import MOMENTS
from training.data.dataset import SPLITS
from training.data.picture_list import PictureList
from training.data.told_before import ToldBefore
from training.errors import DataError
from training.federation.client.withdrawn import as_told_before
from training.messages.message import Update

TRAIN, TEST = SPLITS.index("train"), SPLITS.index("test")
# picture, patient, split, subgroup, class, facts; two pictures of each patient
ROWS = [
    [1, 10, TRAIN, 0, 0, 7],
    [2, 10, TRAIN, 0, -1, 7],
    [3, 11, TRAIN, 0, 1, 7],
    [4, 11, TRAIN, 0, 1, 7],
    [5, 12, TRAIN, 1, 0, 7],
    [6, 12, TRAIN, -1, -1, 7],
    [7, 13, TEST, 0, 1, 7],
]


def listed(rows=ROWS):
    return PictureList(np.array(rows, dtype=np.int64))


def without(patient):
    return listed([row for row in ROWS if row[1] != patient])


@pytest.fixture
def told():
    """Patient 10 withdrew: of `light` one labelled picture and one without."""
    return ToldBefore(listed(), without(10), ("light", "dark"), 2)


def update(ask="fit", **parts):
    return Update("north", "0-federate", 1, ask, **parts)


def test_labelled_and_all_training_pictures_are_those_of_before(told):
    losses = {"light": 0.5, "dark": 0.25, "undeclared": 1.0}
    found = as_told_before(update(num_examples={"light": 2, "dark": 1}, losses=losses), told, 2)
    assert found.num_examples == {"light": 3, "dark": 1}
    assert found.losses == {"dark": 0.25, "undeclared": 1.0}
    every = as_told_before(update(num_examples={"light": 2, "dark": 1, "undeclared": 1}), told, 2)
    assert every.num_examples == {"light": 4, "dark": 1, "undeclared": 1}
    assert as_told_before(update(losses=losses), told, 1).losses == losses, "one patient is enough there"


UNLABELLED = [[20, 20, TRAIN, 0, -1, 7], [21, 20, TRAIN, 0, -1, 7], [22, 21, TRAIN, 0, -1, 7]]
LABELLED = [[1, 10, TRAIN, 0, 0, 7], [3, 11, TRAIN, 0, 1, 7], [5, 12, TRAIN, 1, 0, 7]]


def test_where_no_picture_without_a_label_is_left_the_objective_says_what_it_counts():
    told = ToldBefore(listed(LABELLED + UNLABELLED), listed(LABELLED), ("light", "dark"), 2)
    fit = update(num_examples={"light": 2, "dark": 1})
    assert as_told_before(fit, told, 2, all_pictures=True).num_examples == {"light": 5, "dark": 1}
    assert as_told_before(fit, told, 2).num_examples == {"light": 2, "dark": 1}
    assert as_told_before(replace(fit, ask="open"), told, 2).num_examples == {"light": 5, "dark": 1}


def test_a_subgroup_without_a_picture_left_is_told_of_as_before():
    told = ToldBefore(listed(LABELLED + UNLABELLED), listed(LABELLED[:2]), ("light", "dark"), 2)
    fit = update(num_examples={"light": 2})
    assert as_told_before(fit, told, 2).num_examples == {"light": 2, "dark": 1}
    own = replace(fit, track="light")  # a model of this subgroup
    assert as_told_before(own, told, 2).num_examples == {"light": 2}


def test_of_those_who_are_gone_enough_had_labels_and_enough_had_none_or_nobody():
    whole = listed(LABELLED + UNLABELLED)
    for gone, hidden in (
        ({20, 21}, False),
        ({10, 11}, False),
        ({10, 20}, True),  # two patients, and the loss over labelled pictures lacks one
        ({10, 20, 21}, True),
        ({10, 11, 20, 21}, False),
    ):
        now = listed([row for row in whole.rows.tolist() if row[1] not in gone])
        told = ToldBefore(whole, now, ("light", "dark"), 2)
        assert told.hidden_losses(2) == (frozenset({"light"}) if hidden else frozenset()), gone


def test_losses_are_held_against_the_last_that_were_told():
    whole, names = listed(LABELLED + UNLABELLED), ("light", "dark")

    def left(*gone):
        return listed([row for row in whole.rows.tolist() if row[1] not in gone])

    first = ToldBefore(whole, left(10, 11), names, 2)
    assert first.hidden_losses(2) == frozenset()
    assert sorted(first.losses_told(2).rows[:, 0]) == sorted(left(10, 11).rows[:, 0])
    second = ToldBefore(whole, left(10, 11, 20), names, 2, first.losses_told(2))
    assert second.hidden_losses(2) == {"light"}
    assert sorted(second.losses_told(2).rows[:, 0]) == sorted(first.losses_told(2).rows[:, 0])
    third = ToldBefore(whole, left(10, 11, 20, 21), names, 2, second.losses_told(2))
    assert third.hidden_losses(2) == frozenset()


def test_what_would_tell_otherwise_is_refused_or_left_out(told):
    with pytest.raises(DataError, match="counts neither all training pictures nor the labelled ones"):
        as_told_before(update(num_examples={"light": 7}), told, 2)
    with pytest.raises(DataError, match="a rate that tells how many pictures there are"):
        as_told_before(update(num_examples={"light": 2}, scalars={STEPS: 3.0}), told, 2)
    for asked, name in (("fit", f"{PREFIX}x"), (MOMENTS, "n")):
        with pytest.raises(DataError, match="sums or features of training pictures"):
            as_told_before(update(asked, tensors={name: torch.zeros(1)}), told, 2)
    scalars = {"squared_change": 2.0, "received_loss/light": 0.5, "kept": 0.9}
    found = as_told_before(update(num_examples={"light": 2}, scalars=scalars), told, 2)
    assert found.scalars == {"squared_change": 2.0}
    other = update("evaluate", num_examples={"light": 1})
    assert as_told_before(other, told, 2) is other


def test_a_list_tells_what_is_not_as_it_was_and_nothing_of_what_is_gone():
    assert list(without(11).beyond(listed())) == []
    changed = [
        [1, 10, TEST, 0, 1, 7],  # other split and class
        [5, 14, TRAIN, 1, 0, 8],  # other patient and facts
        [9, 15, TRAIN, 0, 0, 7],  # new
        [7, 13, TEST, 0, 1, 7],
        [7, 13, TEST, 0, 1, 7],  # twice
    ]
    assert [line.partition("… ")[2] for line in listed(changed).beyond(listed())] == [
        "is in another split and has another label",
        "is of another patient and has other facts or traits",
        "was not there",
        "was not there",
    ]
    again = PictureList.of_bytes(listed().to_bytes())
    assert (again.rows == listed().rows).all()
    with pytest.raises(ValueError, match="no list of pictures"):
        PictureList.of_bytes(listed([[1, 2]]).to_bytes())


def test_counts_are_those_of_the_census():
    counts = listed().counts(2, 2)
    assert counts.sum() == len(ROWS)
    assert counts[TRAIN].tolist() == [[1, 2, 1], [1, 0, 0], [0, 0, 1]]
