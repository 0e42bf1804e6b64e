"""Which parts of a case are shown."""

import numpy as np
import pytest

from registry.bundle.cases import AGE, SEX, SITE, CaseInput, pattern_of, read_pattern, usual_patterns
from training.data.cases import parts_of, under, without

COUNT = 600
CASE = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX, SITE))


def patterns_in(examples):
    return [
        pattern_of(kinds, context, CASE).name
        for kinds, context in zip(examples.cases.kinds, examples.cases.context, strict=True)
    ]


@pytest.mark.parametrize("pattern", usual_patterns(CASE), ids=lambda pattern: pattern.name)
def test_every_case_that_has_a_pattern_is_shown_under_it(examples, pattern):
    shown = under(examples, CASE, [pattern])
    needs_close_up = "close-up" in pattern.kinds
    assert shown.lesions.tolist() == [n for n in range(COUNT) if n % 3 > 0 or not needs_close_up]
    assert set(patterns_in(shown)) == {pattern.name}
    assert shown.cases.pictures.shape[1] == len(pattern.kinds)


def test_of_a_picture_of_unknown_kind_every_case_has_one(examples):
    shown = under(examples, CASE, [read_pattern("unknown")])
    assert len(shown) == COUNT
    place = shown.cases.pictures[:, 0] - 3 * np.arange(COUNT)
    assert set(place[::3]) == {0}
    both = place[np.arange(COUNT) % 3 > 0]
    assert 0.4 < both.mean() < 0.6
    assert set(both) == {0, 1}


def test_pictures_go_with_their_kinds_and_facts_keep_their_values(examples):
    shown = under(examples, CASE, [read_pattern("dermoscopic+some context")])
    for number, pictures, kinds, context in zip(
        shown.lesions, shown.cases.pictures, shown.cases.kinds, shown.cases.context, strict=True
    ):
        assert kinds.tolist() == [2]
        assert pictures.tolist() == [3 * number + (number % 3 > 0)]
        known = ~np.isnan(context)
        np.testing.assert_array_equal(context[known], examples.cases.context[number][known])


def test_of_several_patterns_each_case_has_one_of_those_that_it_can_have(examples):
    patterns = usual_patterns(CASE)
    shown = under(examples, CASE, patterns)
    assert len(shown) == COUNT
    names = np.array(patterns_in(shown))
    alone = names[::3]
    assert {name.split("+")[0] for name in alone} == {"unknown", "dermoscopic"}
    for pattern in patterns:
        assert (names[np.arange(COUNT) % 3 > 0] == pattern.name).sum() > 400 / 12 * 0.4


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
