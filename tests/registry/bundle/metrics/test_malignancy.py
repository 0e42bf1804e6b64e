import numpy as np
import pytest

from registry.bundle.counts.counts import Confusion
from registry.bundle.metrics.classification import (
    malignant_answers,
    malignant_sensitivity,
    malignant_specificity,
    other_answers,
)

# Classes: two malignant, one benign.
CONFUSION = Confusion(np.array([[5, 2, 3], [1, 6, 3], [4, 1, 15]]))
TWO_OF_THREE = np.array([True, True, False])


def test_one_malignant_class_taken_for_another_is_found():
    assert malignant_sensitivity(CONFUSION, malignant=TWO_OF_THREE) == pytest.approx(14 / 20)
    assert malignant_specificity(CONFUSION, malignant=TWO_OF_THREE) == pytest.approx(15 / 20)
    assert [int(part[0]) for part in malignant_answers(CONFUSION, malignant=TWO_OF_THREE)] == [14, 20]
    assert [int(part[0]) for part in other_answers(CONFUSION, malignant=TWO_OF_THREE)] == [15, 20]


def test_each_replicate_has_its_own():
    both = Confusion(np.stack([CONFUSION.confusion, CONFUSION.confusion.T]))
    assert malignant_sensitivity(both, malignant=TWO_OF_THREE) == pytest.approx([14 / 20, 14 / 19])


@pytest.mark.parametrize("kind", [True, False])
def test_classes_of_one_kind_leave_both_undefined(kind):
    malignant = np.full(3, kind)
    assert np.isnan(malignant_sensitivity(CONFUSION, malignant=malignant))
    assert np.isnan(malignant_specificity(CONFUSION, malignant=malignant))


def test_without_malignant_pictures_sensitivity_is_undefined():
    none = Confusion(CONFUSION.confusion * np.array([[0], [0], [1]]))
    assert np.isnan(malignant_sensitivity(none, malignant=TWO_OF_THREE))
    assert malignant_specificity(none, malignant=TWO_OF_THREE) == pytest.approx(0.75)
