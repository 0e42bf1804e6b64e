import numpy as np
import pytest

from clients.data.errors import PartitionError
from clients.data.partition_roles import move_unlabelled
from clients.data.partition_rules import NOBODY, Partition

SPLITS = ["train", "train", "train", "test", "train", "train", "train"]
CODES = ["NV", "NV", "", "NV", "NV", "MEL", "NV"]
HOLDERS = np.array([0, 0, 0, 0, 1, 1, NOBODY])


def test_training_pictures_that_lost_or_never_had_a_label_are_moved():
    labelled = np.array([True, False, True, False, True, False, False])
    gathered = move_unlabelled(Partition(("a", "b"), HOLDERS), SPLITS, CODES, labelled)
    assert gathered.clients == ("a", "b", "unlabelled")
    assert gathered.holders.tolist() == [0, 2, 2, 0, 1, 2, NOBODY]
    assert HOLDERS.tolist() == [0, 0, 0, 0, 1, 1, NOBODY]


def test_a_hospital_left_without_training_pictures_is_refused():
    labelled = np.array([True, True, True, True, False, False, True])
    with pytest.raises(PartitionError, match=r"client b of 2 would have no pictures to train on.*`clients`"):
        move_unlabelled(Partition(("a", "b"), HOLDERS), SPLITS, CODES, labelled)


def test_nothing_to_move_is_refused():
    holders, codes = np.array([0, 0]), ["NV", "NV"]
    with pytest.raises(PartitionError, match="all training pictures have labels; lower `label_fraction`"):
        move_unlabelled(Partition(("a",), holders), ["train", "train"], codes, np.array([True, True]))
