"""A case as the numbers that a model sees."""

import numpy as np
import pytest

from registry.bundle.cases import AGE, SEX, SITE, CaseInput, read_kind

CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX, SITE))


def test_kinds_are_numbers_and_empty_slots_last():
    assert CASE.kind_numbers(["dermoscopic", "close-up"]).tolist() == [2, 1]
    assert CASE.kind_numbers([None]).tolist() == [0, -1]


def test_too_many_pictures_and_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="3 pictures were given; this model takes 1 to 2"):
        CASE.kind_numbers([None, None, None])
    with pytest.raises(ValueError, match="0 pictures"):
        CASE.kind_numbers([])
    with pytest.raises(ValueError, match="not trained on overview pictures; it knows close-up, dermoscopic"):
        CASE.kind_numbers(["overview"])


def test_facts_are_numbers_and_nan_where_they_are_not_given():
    np.testing.assert_array_equal(
        CASE.context_numbers({"age": "70", "site": "trunk"}), np.array([70, np.nan, 1], np.float32)
    )


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
