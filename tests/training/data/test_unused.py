import numpy as np
import pytest
import torch

from training.data.unused import HasUnused, Unused, unused_of
from training.errors import MessageError
from training.messages import Broadcast, check_update, reply
from training.rounds.census import CENSUS, Census, count_pictures, take_census

ALL_REASONS = Unused(
    where=1,
    label_map=2,
    broken=3,
    nobody=4,
    beyond_slots=5,
    listed=100,
    causes={"there is no such file": 2, "it is empty": 1},
    undeclared={"no_tone": 6, "scale monk": 7, "tone fitzpatrick 4": 8},
)


def test_every_picture_that_is_not_used_is_in_the_sentence_with_its_reason():
    not_used, undeclared = ALL_REASONS.lines()
    assert not_used.startswith("15 of 100 pictures are not used: 1 that `where` does not keep; 2 whose label")
    assert "3 missing or broken (there is no such file: 2, it is empty: 1)" in not_used
    assert "4 that no client holds" in not_used
    assert not_used.endswith("5 beyond the `slots` of `data.cases`")
    assert undeclared.startswith(
        "21 of 85 pictures that are used are in no subgroup: 6 of no declared tone; 7 "
    )
    assert "7 declared on the scale monk, of which no group names a tone" in undeclared
    assert "8 of tone 4 on the scale fitzpatrick, which no group names" in undeclared


@pytest.mark.parametrize("reason", ["no_value", "other_value"])
def test_subgroups_of_a_column_have_reasons_of_their_own(reason):
    (line,) = Unused(0, 0, 0, 0, listed=9, undeclared={reason: 4}).lines()
    assert line.startswith("4 of 9 pictures that are used are in no subgroup: 4 ")


def test_a_hospital_tells_counts_and_no_cause_that_might_name_a_file():
    told = ALL_REASONS.scalars()
    again = Unused.of_scalars(told)
    assert again is not None
    assert again.reasons == ALL_REASONS.reasons
    assert (again.listed, again.undeclared) == (100, ALL_REASONS.undeclared)
    assert again.causes == {}
    assert not any("file" in name for name in told)


@pytest.mark.parametrize(
    "scalars",
    [
        {"unused.listed": -5.0},
        {"unused.listed": 1e300},
        {"unused.listed": 9.0, "unused.where": 2.7},
        {"unused.listed": 9.0, "unused.where": 10.0},
        {"unused.listed": 9.0, "unused.where": 5.0, "unused.undeclared.no_tone": 5.0},
        {"unused.listed": 9.0, "unused.undeclared.scale monk": 1e300},
    ],
)
def test_a_hospital_cannot_tell_what_cannot_be(scalars, make_dataset):
    update = reply(
        Broadcast("north", CENSUS, 0, CENSUS),
        tensors={CENSUS: torch.from_numpy(count_pictures(make_dataset(), "north"))},
        scalars=scalars,
    )
    with pytest.raises(MessageError, match="north tells of its pictures what cannot be"):
        Census.from_updates([update], ["light", "dark"], ["benign", "malignant"])


def test_what_is_handed_on_is_told_without_what_quotes_a_table():
    unused = Unused(0, 0, 0, 0, listed=9, reading=("it has the word 'Anna'",), handed_on=("a table is read",))
    assert unused.lines() == ["it has the word 'Anna'"]
    assert unused.lines(to_owner=False) == ["a table is read"]
    assert "Anna" not in str(unused.record())
    assert "Anna" not in str(unused.scalars())


class Single:
    """The pictures of one client of a data set, some of which are not used."""

    def __init__(self, whole, client):
        self._whole, self.clients, self.unused = whole, (client,), ALL_REASONS

    def __getattr__(self, name):
        return getattr(self._whole, name)


def test_a_hospital_tells_with_its_census_and_clients_of_one_machine_do_not(make_dataset, make_client):
    whole = make_dataset()
    assert unused_of(whole) is None
    single = Single(whole, "north")
    assert isinstance(single, HasUnused)
    request = Broadcast("north", CENSUS, 0, CENSUS)
    answer = take_census(request, make_client("north", single))
    check_update(answer, request)
    census = Census.from_updates([answer], whole.subgroups, ["benign", "malignant"])
    assert census.unused["north"].reasons == ALL_REASONS.reasons
    assert take_census(request, make_client("north", whole)).scalars == {}
    assert np.array_equal(census.counts["north"], Census.of_dataset(whole).counts["north"])
