"""Cases without a part: that part is gone, and everything else is there."""

import numpy as np
import pytest

from registry.bundle.cases import CaseInput
from tests.training.data.test_patterns import CASE, COUNT
from training.data.left_out import parts_of, without

FACTS = CASE.fact_names


def test_what_can_be_left_out_is_each_kind_and_each_fact():
    assert parts_of(CASE) == ("close-up", "dermoscopic", "age", "sex", "site")
    assert parts_of(CaseInput(slots=2, kinds=("dermoscopic",))) == ()  # nothing would be left


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_is_gone_and_no_other(examples, fact):
    left = without(examples, CASE, fact)
    place = FACTS.index(fact)
    assert np.isnan(left.cases.context[:, place]).all()
    others = [other for other in range(len(FACTS)) if other != place]
    np.testing.assert_array_equal(left.cases.context[:, others], examples.cases.context[:, others])
    np.testing.assert_array_equal(left.cases.pictures, examples.cases.pictures)
    np.testing.assert_array_equal(left.labels, examples.labels)


def test_without_a_kind_only_cases_with_another_stay(examples):
    left = without(examples, CASE, "dermoscopic")
    both = np.arange(COUNT) % 3 > 0  # the others have a dermoscopic picture alone
    np.testing.assert_array_equal(left.labels, examples.labels[both])
    np.testing.assert_array_equal(left.cases.kinds, np.full((both.sum(), 1), 1))
    np.testing.assert_array_equal(left.cases.pictures[:, 0], examples.cases.pictures[both, 0])
    np.testing.assert_array_equal(left.cases.context, examples.cases.context[both])


def test_the_other_kind_moves_to_the_front(examples):
    left = without(examples, CASE, "close-up")
    assert len(left) == COUNT
    assert (left.cases.kinds[:, 0] == 2).all()
    both = np.arange(COUNT) % 3 > 0
    expected = np.where(both, examples.cases.pictures[:, 1], examples.cases.pictures[:, 0])
    np.testing.assert_array_equal(left.cases.pictures[:, 0], expected)
