"""One labelled picture of each patient, always the same, and splits that are closed."""

from dataclasses import replace

import numpy as np
import pytest

from training.data.dataset import Examples
from training.data.of_patients import OfPatients
from training.errors import DataError

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


def test_all_else_is_the_datasets(held):
    view = OfPatients(held, ())
    for name in ("labels", "subgroups", "clients", "unseen", "communities", "fingerprint", "traits"):
        assert getattr(view, name) == getattr(held, name)
