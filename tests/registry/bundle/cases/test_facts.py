"""Facts as hospitals and apps spell them, read to numbers; what nobody can mean is refused."""

import math

import pytest

from registry.bundle.cases.facts import AGE, SEX, SITE, CategoryFact, NumberFact


@pytest.mark.parametrize(
    ("text", "number"), [("70", 70), (" 70.0 ", 70), ("0", 0), ("120", 120), ("4.5", 4.5)]
)
def test_an_age_is_its_number(text, number):
    assert AGE.read(text) == number


@pytest.mark.parametrize("fact", [AGE, SEX, SITE])
@pytest.mark.parametrize("text", ["", "  ", "unknown", "NaN", "N/A"])
def test_what_is_not_known_is_nan(fact, text):
    assert math.isnan(fact.read(text))
    assert fact.write(fact.read(text)) is None


@pytest.mark.parametrize("text", ["700", "-1", "inf", "120.5"])
def test_an_age_out_of_bounds_is_refused_with_the_bounds(text):
    with pytest.raises(ValueError, match=r"out of bounds; it is a number from 0 to 120 years, or empty"):
        AGE.read(text)


def test_an_age_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="age 'seventy' is no number"):
        AGE.read("seventy")


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


def test_a_fact_of_a_jobs_own_keeps_its_spelling():
    fact = CategoryFact(name="fitzpatrick", values=("III", "IV"))
    assert fact.read("IV") == 1
    with pytest.raises(ValueError, match="none that is known"):
        fact.read("iv")


def test_facts_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="they rise"):
        NumberFact(name="age", low=5, high=5)
    with pytest.raises(ValueError, match="twice"):
        CategoryFact(name="sex", values=("a", "a"))
