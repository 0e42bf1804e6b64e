"""How many patients of each skin tone a client tells of, and what can be found out from it."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from training.algorithms.release_store import MemoryReleases
from training.data.dataset import DECLARED_TONE, Examples
from training.rounds.client.evaluate import patients_by_tone

TONES = ("fitzpatrick 3", "fitzpatrick 4", "fitzpatrick 5", "fitzpatrick 6")
LEAST = 10


def part(sizes, *, per_patient=1):
    """A subgroup with so many patients of each tone; each has so many pictures."""
    of_each = np.repeat(np.repeat(np.arange(len(sizes)), sizes), per_patient)
    patients = np.repeat(np.arange(sum(sizes)), per_patient)
    numbers = np.arange(len(of_each))
    return Examples(
        np.zeros((len(of_each), 1)),
        numbers,
        np.zeros_like(numbers),
        np.zeros_like(numbers),
        patients,
        traits=of_each[:, None],
        names=np.column_stack([numbers + 1000, patients]),
    )


def told(sizes, least=LEAST, releases=None, **pictures):
    """What a client tells of them."""
    values = (*TONES[: len(sizes)], "")
    client = SimpleNamespace(
        id="north",
        min_count=least,
        releases=releases or MemoryReleases(),
        dataset=SimpleNamespace(traits={DECLARED_TONE: values}),
    )
    return tuple(patients_by_tone(client, {"medium-dark": part(sizes, **pictures)}).tolist())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((45, 20, 12, 10), (45, 20, 12, 10)),
        ((45, 20, 0, 0), (45, 20, 0, 0)),
        ((45, 20, 12, 3), (10, 10, 10, 0)),  # of each of three at least the minimum
        ((45, 20, 8, 9), (10, 10, 0, 0)),
        ((11, 4), (0, 0)),  # 15 are fewer than 10 and the 9 that "too few" may be
        ((15, 4), (10, 0)),
        ((9, 9, 9, 9), (0, 0, 0, 0)),
    ],
)
def test_by_hand(sizes, expected):
    assert told(sizes) == expected
    assert told(sizes, per_patient=3) == expected  # patients count, not pictures


def naive(sizes, least):
    """The guard off: whatever has enough patients is told as it is."""
    return tuple(n if n >= least else 0 for n in sizes)


def found_out(answer, sizes, least):
    """The numbers below the minimum that all groups of this size with this answer have in common."""
    total, said = sum(sizes), answer(sizes, least)
    alike = [
        other
        for other in product(range(total + 1), repeat=len(sizes))
        if sum(other) == total and answer(other, least) == said
    ]
    return [
        place
        for place, n in enumerate(sizes)
        if 0 < n < least and len({other[place] for other in alike}) == 1
    ]


@pytest.mark.parametrize("total", range(3, 12))
@pytest.mark.parametrize("tones", [2, 3])
def test_no_few_patients_follow_from_the_subgroups_number(total, tones):
    """Of no subgroup of so many patients, whoever tries all that its tones could be."""
    alike = {}
    for sizes in product(range(total + 1), repeat=tones):
        if sum(sizes) == total:
            alike.setdefault(told(sizes, 3), []).append(sizes)
    for group in alike.values():
        for of_tone in zip(*group, strict=True):
            assert len(set(of_tone)) > 1 or of_tone[0] == 0 or of_tone[0] >= 3, group


def test_with_the_guard_off_the_missing_one_follows():
    assert found_out(naive, (6, 2), 3) == [1]
    assert found_out(naive, (2, 7), 3) == [0]
    assert not found_out(told, (6, 2), 3)


def test_two_questions_do_not_tell_the_patient_between_them():
    """A patient more than at the last question: her tone's number stays untold."""
    releases = MemoryReleases()
    assert told((45, 20, 12, 10), releases=releases) == (45, 20, 12, 10)
    assert told((45, 20, 12, 10), releases=releases) == (45, 20, 12, 10)
    again = told((46, 20, 12, 10), releases=releases)
    assert again[0] != 46
    assert told((46, 20, 12, 10)) == (46, 20, 12, 10)  # the control: nothing was told before
