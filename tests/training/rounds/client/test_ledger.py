"""The ledger of releases: smallest differences by brute force, and what may leave after what left before."""

import logging
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms import client as client_module
from training.algorithms.client import Client, FolderReleases, MemoryReleases
from training.data.dataset import Examples
from training.errors import MessageError
from training.rounds.client.ledger import (
    ANSWERS,
    EMBEDDING_SUMS,
    Release,
    disclosable,
    smallest_cut,
    smallest_difference,
)

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


def test_the_same_sets_again_and_parts_that_add_up_to_them_differ_by_nobody():
    whole = release([range(40)])
    assert smallest_difference(whole, whole, 10) == np.inf
    assert smallest_difference(whole, release([range(20), range(20, 40)]), 10) == np.inf


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


LEAST = 4


def pictures(*numbers, per_patient=1):
    """Pictures of these numbers; so many after each other are of one patient."""
    n = np.array(numbers, dtype=np.int64)
    names = np.column_stack([n + 1000, n // per_patient])
    return Examples(np.zeros((1, 1, 1, 3), np.uint8), n * 0, n * 0, n * 0, n // per_patient, names=names)


def numbers(sets):
    """By name, the numbers of the pictures that are left."""
    return {name: (part.names[:, 0] - 1000).tolist() for name, part in sets.items()}


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    """Where the account is kept."""
    return MemoryReleases() if request.param == "memory" else FolderReleases(tmp_path / "releases")


def client(store, name="north", least=LEAST):
    return Client(name, 0, least, None, None, None, releases=store)


def told(store, kind=ANSWERS, name="north", **sets):
    """What of some sets is admitted."""
    return numbers(disclosable(client(store, name), kind, {k: pictures(*v) for k, v in sets.items()}))


def test_the_same_sets_are_told_again_in_any_order(store):
    first = {"light": range(10), "dark": range(10, 20)}
    assert told(store, **first) == {name: list(of) for name, of in first.items()}
    again = told(store, dark=range(19, 9, -1), light=range(10))
    assert sorted(again["dark"]) == list(range(10, 20))
    assert len(list(store.all("north"))) == 1


def test_few_new_pictures_are_held_back_until_they_are_enough(store, caplog):
    told(store, light=range(10))
    with caplog.at_level(logging.WARNING, "dermfed.releases"):
        assert told(store, light=range(13)) == {"light": list(range(10))}
    assert "north: 3 pictures are held back" in caplog.text
    assert told(store, light=range(14)) == {"light": list(range(14))}
    assert told(store, light=range(17)) == {"light": list(range(14))}, "held against the last, too"


def test_a_set_that_lost_few_patients_is_not_told(store, caplog):
    told(store, light=range(10), dark=range(10, 20))
    with caplog.at_level(logging.WARNING, "dermfed.releases"):
        assert told(store, light=range(10), dark=range(12, 20)) == {"light": list(range(10))}
        told(store, light=range(10), dark=range(13, 20))
    assert caplog.text.count("nothing is told of dark") == 1, "said once, however often it is asked"


def test_patients_count_and_not_their_pictures(store):
    before, after = pictures(*range(20), per_patient=2), pictures(*range(26), per_patient=2)
    for part in (before, after):
        disclosable(client(store), ANSWERS, {"light": part})
    assert len(list(store.all("north"))) == 1, "six pictures more are of three patients"


def test_other_kinds_of_sums_and_other_clients_are_no_part_of_it(store):
    told(store, light=range(10))
    assert told(store, EMBEDDING_SUMS, light=range(11)) == {"light": list(range(11))}
    assert told(store, name="south", light=range(11)) == {"light": list(range(11))}


def test_where_single_patients_may_be_told_of_no_account_is_kept(store):
    part = {"light": pictures(1)}
    assert disclosable(client(store, least=1), ANSWERS, part) == part
    assert list(store.all("north")) == []


def test_an_account_outlives_the_process_and_one_that_is_spoilt_stops_everything(tmp_path):
    told(FolderReleases(tmp_path), light=range(10))
    later = FolderReleases(tmp_path)
    assert told(later, light=range(11)) == {"light": list(range(10))}
    (kept,) = tmp_path.rglob("*.npy")
    kept.write_bytes(kept.read_bytes()[:-20])
    with pytest.raises(MessageError, match=r"north cannot read what it told before: .*restored or removed"):
        told(later, light=range(12))


def test_nothing_is_told_that_cannot_be_written_down(tmp_path, monkeypatch):
    store = FolderReleases(tmp_path / "full")
    (tmp_path / "full").write_text("not a folder")
    with pytest.raises(MessageError, match="north tells nothing that it cannot keep an account of"):
        told(store, light=range(10))
    monkeypatch.setattr(client_module, "MOST_RELEASES", 2)
    store = FolderReleases(tmp_path / "many")
    for start in (0, 100):
        told(store, light=range(start, start + 10))
    with pytest.raises(MessageError, match="counts of 2 different sets of pictures, the most that it keeps"):
        told(store, light=range(200, 210))
