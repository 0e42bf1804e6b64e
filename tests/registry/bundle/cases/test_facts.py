"""Facts as hospitals and apps spell them, read to numbers; what nobody can mean is refused."""

import pytest

from registry.bundle.cases import AGE, SEX, SITE


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
