"""Patterns: their names, their numbers, and that of a case."""

import numpy as np
import pytest

from registry.bundle.cases import AGE, SEX, CaseInput, pattern_of, read_pattern, usual_patterns

CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))


@pytest.mark.parametrize("name", ["", "context", "photo", "close-up+x", "close-up+context+dermoscopic"])
def test_what_is_no_pattern_is_refused(name):
    with pytest.raises(ValueError, match="no pattern; join kinds"):
        read_pattern(name)


def test_the_usual_patterns_are_all_that_can_be_given_of_known_kinds():
    assert [pattern.name for pattern in usual_patterns(CASE)] == [
        "unknown",
        "unknown+some context",
        "unknown+context",
        "close-up",
        "close-up+some context",
        "close-up+context",
        "dermoscopic",
        "dermoscopic+some context",
        "dermoscopic+context",
        "close-up+dermoscopic",
        "close-up+dermoscopic+some context",
        "close-up+dermoscopic+context",
    ]
    one_slot = CASE.model_copy(update={"slots": 1, "facts": ()})
    assert [pattern.name for pattern in usual_patterns(one_slot)] == ["unknown", "close-up", "dermoscopic"]
    one_fact = CASE.model_copy(update={"facts": (AGE,)})
    assert not any(pattern.facts == "some" for pattern in usual_patterns(one_fact))
    assert [pattern.name for pattern in usual_patterns(CaseInput(slots=1))] == ["unknown"]


@pytest.mark.parametrize(
    ("kinds", "context", "name"),
    [
        ([1, 2], [70, 1], "close-up+dermoscopic+context"),
        ([2, 1], [np.nan, 1], "close-up+dermoscopic+some context"),
        ([1, 1], [np.nan, np.nan], "close-up"),
        ([0, -1], [np.nan, np.nan], "unknown"),
        ([0, 2], [70, 0], "unknown+dermoscopic+context"),
    ],
)
def test_the_pattern_of_a_case(kinds, context, name):
    assert pattern_of(np.array(kinds), np.array(context, np.float32), CASE).name == name


def test_a_pattern_within_what_a_model_takes():
    assert read_pattern("close-up+context").within(CASE)
    assert not read_pattern("overview").within(CASE)
    assert not read_pattern("close-up+context").within(CASE.model_copy(update={"facts": ()}))
    assert not read_pattern("close-up+dermoscopic").within(CASE.model_copy(update={"slots": 1}))
