import math

import numpy as np
import pytest

from registry.bundle.cases import read_given
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
