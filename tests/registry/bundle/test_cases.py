"""Facts as hospitals and apps spell them, read to numbers; what nobody can mean is refused.

A case as the numbers that a model sees.

Patterns: their names, their numbers, and that of a case.
"""

import math

import numpy as np
import pytest

from registry.bundle.cases import (
    AGE,
    SEX,
    SITE,
    CaseInput,
    CategoryFact,
    pattern_of,
    read_given,
    read_kind,
    read_pattern,
    usual_patterns,
)
from tests.case_bundles import CASE


def test_what_is_given_becomes_numbers():
    given = read_given(CASE, ["dermoscopic", None], {"age": "70", "site": "back", "sex": ""})
    assert given.kinds.tolist() == [2, 0]
    np.testing.assert_array_equal(given.context, np.array([70, math.nan, 1], np.float32))
    assert given.pictures == ("dermoscopic", "unknown")
    assert given.facts == {"age": "70", "site": "trunk"}
    assert given.pattern.name == "unknown+dermoscopic+some context"


def test_a_model_of_single_pictures_takes_one_and_nothing_else():
    assert read_given(None, [None], {}) is None
    for kinds, facts in (([None, None], {}), (["close-up"], {}), ([None], {"age": "70"}), ([], {})):
        with pytest.raises(
            ValueError, match="this model takes one picture, of no kind in particular, and no"
        ):
            read_given(None, kinds, facts)


@pytest.mark.parametrize(
    ("kinds", "facts", "message"),
    [
        (["overview"], {}, "not trained on overview pictures; it knows close-up, dermoscopic"),
        ([None] * 4, {}, "4 pictures were given; this model takes 1 to 3"),
        ([None], {"age": "700"}, "age 700 is out of bounds"),
        ([None], {"weight": "70"}, "does not take weight; it takes age, sex, site"),
    ],
)
def test_what_a_model_does_not_take_is_refused(kinds, facts, message):
    with pytest.raises(ValueError, match=message):
        read_given(CASE, kinds, facts)


@pytest.mark.parametrize("text", ["700", "-1", "inf", "120.5"])
def test_an_age_out_of_bounds_is_refused_with_the_bounds(text):
    with pytest.raises(ValueError, match=r"out of bounds; it is a number from 0 to 120 years, or empty"):
        AGE.read(text)


@pytest.mark.parametrize(
    ("text", "site"),
    [
        ("head/neck", "head_neck"),
        ("head_neck_face", "head_neck"),
        ("Scalp", "head_neck"),
        ("posterior torso", "trunk"),
        ("trunk", "trunk"),
        ("lower extremity", "lower_extremity"),
        ("palms/soles", "palms_soles"),
        ("genital", "oral_genital"),
    ],
)
def test_sites_of_published_tables_are_of_one_list(text, site):
    assert SITE.write(SITE.read(text)) == site


def test_sexes_are_of_one_list():
    assert [SEX.write(SEX.read(text)) for text in ("F", "male", "Woman", "m")] == [
        "female",
        "male",
        "female",
        "male",
    ]


def test_a_value_that_is_none_is_refused_with_what_it_may_be():
    with pytest.raises(ValueError, match=r"sex 'mael' is none that is known; .*male"):
        SEX.read("mael")


def test_kinds_of_published_tables_are_of_one_list():
    spelt = ("clinical: close-up", "Dermoscopic", "dermatoscopic", "overview", "", "unknown")
    assert [read_kind(text) for text in spelt] == [
        "close-up",
        "dermoscopic",
        "dermoscopic",
        "overview",
        None,
        None,
    ]
    with pytest.raises(ValueError, match="no kind of picture 'x-ray'"):
        read_kind("x-ray")


PATTERN_CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))


@pytest.mark.parametrize("name", ["", "context", "photo", "close-up+x", "close-up+context+dermoscopic"])
def test_what_is_no_pattern_is_refused(name):
    with pytest.raises(ValueError, match="no pattern; join kinds"):
        read_pattern(name)


def test_the_usual_patterns_are_all_that_can_be_given_of_known_kinds():
    assert [pattern.name for pattern in usual_patterns(PATTERN_CASE)] == [
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
    one_slot = PATTERN_CASE.model_copy(update={"slots": 1, "facts": ()})
    assert [pattern.name for pattern in usual_patterns(one_slot)] == ["unknown", "close-up", "dermoscopic"]
    one_fact = PATTERN_CASE.model_copy(update={"facts": (AGE,)})
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
    assert pattern_of(np.array(kinds), np.array(context, np.float32), PATTERN_CASE).name == name


def test_a_pattern_within_what_a_model_takes():
    assert read_pattern("close-up+context").within(PATTERN_CASE)
    assert not read_pattern("overview").within(PATTERN_CASE)
    assert not read_pattern("close-up+context").within(PATTERN_CASE.model_copy(update={"facts": ()}))
    assert not read_pattern("close-up+dermoscopic").within(PATTERN_CASE.model_copy(update={"slots": 1}))


@pytest.mark.parametrize(
    ("text", "years"),
    [("085Y", 85), ("018M", 1.5), ("006W", 0.115), ("010D", 0.027), ("42", 42), ("1.5", 1.5)],
)
def test_an_age_as_dicom_writes_it_is_of_its_unit(text, years):
    assert AGE.read(text) == pytest.approx(years, abs=0.001)


@pytest.mark.parametrize("text", ["18M", "85Y", "018m", "1000Y", "18 months"])
def test_an_age_in_another_unit_is_never_taken_for_years(text):
    with pytest.raises(ValueError, match="is no number"):
        AGE.read(text)


def test_a_sex_that_a_model_does_not_know_is_not_known():
    assert [math.isnan(SEX.read(text)) for text in ("O", "other", "")] == [True] * 3
    assert [SEX.write(SEX.read(text)) for text in ("F", "M")] == ["female", "male"]
    assert CategoryFact(name="sex", values=("female", "male", "other")).read("other") == 2
    with pytest.raises(ValueError, match="none that is known"):
        SEX.read("diverse")
