"""Folds of patients, and one picture of each patient."""

from dataclasses import replace

import numpy as np
import pytest

from training.data.dataset import Examples
from training.data.folds import OfPatients, by_fold, in_folds
from training.errors import DataError

SUBGROUPS = ("dark", "medium", "light")


def draw(rng, patients, *, mixed=0.0, unlabelled=0.0):
    """Pictures of so many patients by subgroup; a share of patients is in two subgroups."""
    subgroups = np.repeat(np.arange(len(patients)) - 1, patients)
    owners = rng.integers(-(2**62), 2**62, len(subgroups))
    again = rng.random(len(subgroups)) < 0.5
    owners, subgroups = np.append(owners, owners[again]), np.append(subgroups, subgroups[again])
    turned = rng.random(len(subgroups)) < mixed
    subgroups[turned] = rng.integers(0, len(SUBGROUPS), turned.sum())
    n = len(owners)
    names = np.column_stack([rng.integers(-(2**62), 2**62, n), owners])
    labels = np.where(rng.random(n) < unlabelled, -1, rng.integers(0, 3, n))
    return Examples(np.zeros((n, 1)), np.arange(n), labels, subgroups, np.arange(n), names=names)


def patients_of(examples, group, fold):
    keep = (examples.subgroups == group) & (examples.folds == fold) & (examples.labels >= 0)
    return len(np.unique(examples.people[keep]))


@pytest.mark.parametrize("least", [1, 5, 10])
@pytest.mark.parametrize("seed", range(12))
def test_every_subgroup_has_enough_patients_in_each_of_its_folds(seed, least):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 120, 4)
    sizes[1] += least
    drawn = draw(rng, sizes, mixed=[0, 0.1][seed % 2], unlabelled=[0, 0.3][seed // 2 % 2])
    told = in_folds(drawn, "north", SUBGROUPS, 10, least)
    assert ((told.folds >= 0) & (told.folds < 10)).all()
    pairs = np.unique(np.column_stack([told.people, told.folds]), axis=0)
    assert len(pairs) == len(np.unique(told.people))  # nobody is in two
    for group in range(-1, 3):
        own = (drawn.subgroups == group) & (drawn.labels >= 0)
        if len(np.unique(drawn.people[own])) >= least:
            found = [patients_of(told, group, fold) for fold in range(10)]
            assert all(n == 0 or n >= least for n in found)


def test_folds_are_as_many_as_the_patients_allow():
    few, many = (
        in_folds(draw(np.random.default_rng(1), [0, n]), "north", SUBGROUPS, 10, 10) for n in (19, 400)
    )
    assert len(np.unique(few.folds)) == 1
    assert sorted(np.unique(many.folds)) == list(range(10))
    starts = {
        int(in_folds(draw(np.random.default_rng(1), [0, 12]), name, SUBGROUPS, 10, 10).folds[0])
        for name in "abcdefgh"
    }
    assert len(starts) > 2  # small subgroups are not all missing from the same model


def test_one_patient_more_moves_nobody():
    rng = np.random.default_rng(2)
    whole = draw(rng, [0, 305, 205, 0])
    one = whole.people[0]
    with_all = in_folds(whole, "north", SUBGROUPS, 5, 10)
    without = in_folds(whole.where(whole.people != one), "north", SUBGROUPS, 5, 10)
    assert (with_all.folds[whole.people != one] == without.folds).all()


def test_parts_by_fold_are_the_parts():
    told = in_folds(draw(np.random.default_rng(3), [0, 60, 40, 0]), "north", SUBGROUPS, 4, 5)
    pieces = by_fold({"dark": told})
    assert len(pieces) > 1
    assert sum(map(len, pieces.values())) == len(told)
    assert by_fold({"dark": draw(np.random.default_rng(3), [0, 60])}).keys() == {"dark"}


PEOPLE = np.array([7, 7, 3, 3, 3, 9])


@pytest.fixture
def held(dataset):
    """Six test pictures of three patients at north; the first of patient 3 has no label."""
    examples = Examples(
        images=dataset.held["north", "test"].images,
        rows=np.arange(6),
        labels=np.array([0, 1, -1, 1, 0, 1]),
        subgroups=np.array([0, 1, 1, 1, 0, -1]),
        lesions=np.arange(6),
        names=np.column_stack([np.arange(6), PEOPLE]),
    )
    return replace(dataset, held={**dataset.held, ("north", "test"): examples})


def test_one_labelled_picture_of_each(held):
    seen = OfPatients(held, ("test",)).examples("north", "test")
    assert seen.rows.tolist() == [0, 3, 5]
    assert len(set(seen.people)) == len(seen) == 3


def test_another_patient_changes_nobody_elses(held):
    """What noise hides: without one patient all others are counted as they were."""
    examples = held.held["north", "test"]
    for patient in set(PEOPLE):
        fewer = replace(held, held={("north", "test"): examples.where(patient != PEOPLE)})
        rows = OfPatients(fewer, ("test",)).examples("north", "test").rows.tolist()
        whole = OfPatients(held, ("test",)).examples("north", "test")
        assert rows == whole.rows[whole.people != patient].tolist()


def test_lesions_stand_for_patients_who_are_not_known(held):
    unknown = replace(held.held["north", "test"], names=None)
    seen = OfPatients(replace(held, held={("north", "test"): unknown}), ("test",))
    assert len(seen.examples("north", "test")) == 5


def test_training_pictures_are_as_they_are(held):
    seen = OfPatients(held, ("train",)).examples("north", "train")
    assert len(seen) == len(held.examples("north", "train"))


def test_what_is_closed(held):
    with pytest.raises(DataError, match="test pictures of north was refused"):
        OfPatients(held, ("train",)).examples("north", "test")
