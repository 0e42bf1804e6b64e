"""The smallest difference between two releases, against trying every union of sets."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.rounds.client.differences import Release, smallest_cut, smallest_difference

MANY = 1000


def release(sets, patient=lambda picture: picture):
    """A release of sets of picture numbers."""
    return Release.of([np.array([(each, patient(each)) for each in one]).reshape(-1, 2) for one in sets])


def unions(sets):
    """Every union of some of the sets."""
    chosen = chain.from_iterable(combinations(sets, size) for size in range(len(sets) + 1))
    return [set().union(*some) for some in chosen]


def by_trying(one, other, patient=lambda picture: picture):
    """The definition."""
    differences = [a ^ b for a in unions(one) for b in unions(other)]
    return min((len({patient(each) for each in of}) for of in differences if of), default=np.inf)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=14), st.lists(st.integers(0, 3), min_size=1, max_size=14)
)
def test_is_that_of_trying_every_union(first, second):
    """Sets 1 to 3 of each; pictures of 0 are in none."""
    sets = [[{i for i, of in enumerate(places) if of == k} for k in (1, 2, 3)] for places in (first, second)]
    found = smallest_difference(release(sets[0]), release(sets[1]), MANY)
    assert found == pytest.approx(by_trying(*sets))


@given(
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
    st.lists(st.integers(0, 2), min_size=12, max_size=12),
    st.integers(2, 5),
)
def test_is_never_more_than_the_true_number_of_patients(first, second, of_each):
    sets = [[{i for i, of in enumerate(places) if of == k} for k in (1, 2, 3)] for places in (first, second)]

    def patient(picture):
        return picture // of_each

    true = by_trying(*sets, patient)
    for enough in (1, 2, 3, 4, MANY):
        found = smallest_difference(release(sets[0], patient), release(sets[1], patient), enough)
        assert found <= true + 1e-9 or (found == np.inf and true >= enough)


def test_one_patient_more_is_found():
    before, after = release([range(40), range(50, 80)]), release([range(41), range(50, 80)])
    assert smallest_difference(before, after, 10) == 1


def test_the_same_sets_again_and_parts_that_add_up_to_them_differ_by_nobody():
    whole = release([range(40)])
    assert smallest_difference(whole, whole, 10) == np.inf
    assert smallest_difference(whole, release([range(20), range(20, 40)]), 10) == np.inf


def test_a_ward_within_a_clinic_is_found():
    clinics, wards = release([range(40), range(40, 80)]), release([range(37), range(37, 80)])
    assert smallest_difference(clinics, wards, 10) == 3


def test_patients_with_pictures_in_several_sets_do_not_make_a_release_differ_from_itself():
    """Ten patients, each with a picture in each of three sets: every set is of ten."""
    sets = [range(10), range(10, 20), range(20, 30)]
    again = release(sets, lambda picture: picture % 10)
    assert smallest_difference(again, again, 10) == np.inf


def test_the_smallest_cut_of_a_known_graph():
    """The example of Stoer and Wagner 1997, whose minimum cut is 4."""
    edges = [
        (1, 2, 2),
        (1, 5, 3),
        (2, 3, 3),
        (2, 5, 2),
        (2, 6, 2),
        (3, 4, 4),
        (3, 7, 2),
        (4, 7, 2),
        (4, 8, 2),
    ]
    edges += [(5, 6, 3), (6, 7, 1), (7, 8, 3)]
    weights = np.zeros((8, 8))
    for one, other, weight in edges:
        weights[one - 1, other - 1] = weights[other - 1, one - 1] = weight
    assert smallest_cut(weights) == 4
