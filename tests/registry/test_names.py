import pytest

from registry.errors import InvalidName
from registry.names import check_name, check_title, no_such_version, not_found


@pytest.mark.parametrize("name", ["a", "7", "skin-lesion", "v1.2_b", "x" * 100])
def test_names_that_can_be_part_of_an_address(name):
    assert check_name("model", name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "_a", "a/b", "a b", "a\n", "é", "x" * 101, "a?b", ".."])
def test_other_names_are_refused_with_what_is_allowed(name):
    with pytest.raises(InvalidName, match="letters, digits"):
        check_name("model", name)


@pytest.mark.parametrize("title", ["", "  ", "two\nlines", "bell\a", "x" * 101])
def test_titles_that_nobody_can_read(title):
    with pytest.raises(InvalidName, match="printable"):
        check_title("key name", title)


def test_an_unknown_name_is_told_the_nearest():
    known = ["production", "staging", "alpha", "beta", "gamma", "delta"]
    assert (
        str(not_found("alias", "prodction", known))
        == "there is no alias 'prodction'; the nearest: production"
    )
    listed = str(not_found("alias", "zzz", known)).split(": ")[1]
    assert listed == "alpha, beta, delta, gamma, production"
    assert "there is no alias yet" in str(not_found("alias", "zzz", []))


def test_an_unknown_version_is_told_the_nearest_numbers():
    assert str(no_such_version("m", 9, range(1, 9))).endswith("the nearest: 4, 5, 6, 7, 8")
    assert str(no_such_version("m", 0, range(1, 9))).endswith("the nearest: 1, 2, 3, 4, 5")
