"""Two sums over nearly the same pictures: their difference is a sum over the few pictures between.

The same request of all pictures and of one for each lesion; of a hospital before and after it took in one
more patient; of subgroups before and after a tone was put right; of parts of subgroups. Each is asked of what
really answers, over runs where a hospital remembers. The attacker adds up blocks of one answer as it likes
before it subtracts those of another.
"""

from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

from clients.store import ClientStore
from personalization.stages.personal_models import evaluate_together
from training.algorithms.client import FolderReleases
from training.messages import Broadcast
from training.rounds.client import disclosure
from training.rounds.client import evaluate as door
from training.rounds.requests import EvaluateRequest

LEAST = 5
SUBGROUPS = ("light", "dark", "undeclared")
ALL, ONE_PER_LESION = {}, {"one_per_lesion": True}


SITES = {"site": ("trunk", "face"), "ward": ("skin", "head")}


@pytest.fixture
def full(make_dataset):
    """A hospital of 60 test pictures, 4 a second one of their lesion, with the site and the ward of each."""
    data = make_dataset({"north": {"light": (3, 3, 3, 40), "dark": (3, 3, 3, 20)}})
    examples = data.held["north", "test"]
    lesions = np.arange(60)
    lesions[[5, 9, 12, 44]] -= 1
    face = (np.arange(60) % 3 == 0).astype(np.int64)
    traits = np.column_stack([face, face * (np.arange(60) != 3)])
    data.held["north", "test"] = replace(examples, lesions=lesions, traits=traits)
    return replace(data, traits=SITES)


def of(data, keep):
    """The same hospital with some of its test pictures."""
    held = {**data.held, ("north", "test"): data.held["north", "test"].where(keep)}
    return replace(data, held=held)


def toned(data, darker):
    """The same hospital, where the tones of some pictures were put right."""
    examples = data.held["north", "test"]
    changed = replace(examples, subgroups=np.where(darker, 1, examples.subgroups))
    return replace(data, held={**data.held, ("north", "test"): changed})


PICTURES = np.arange(60)
SCENARIOS = {
    "one for each lesion": lambda full: [(full, ALL), (full, ONE_PER_LESION)],
    "one for each lesion first": lambda full: [(full, ONE_PER_LESION), (full, ALL)],
    "one more patient": lambda full: [(of(full, PICTURES != 31), ALL), (full, ALL)],
    "one patient each month": lambda full: [(of(full, number > PICTURES), ALL) for number in range(55, 61)],
    "one patient fewer": lambda full: [(full, ALL), (of(full, PICTURES != 31), ALL)],
    "a tone put right": lambda full: [(full, ALL), (toned(full, PICTURES == 7), ALL)],
    "a ward with all faces but one": lambda full: [(full, {"intersections": True})],
    "parts of one more patient": lambda full: [
        (of(full, PICTURES != 30), {"intersections": True}),
        (full, {"intersections": True}),
    ],
    "all together": lambda full: [
        (of(full, PICTURES != 31), ALL),
        (full, {"together": True}),
    ],
}


@pytest.fixture
def asked(make_client, monkeypatch, tmp_path):
    """`asked(steps, folder)`: the sets of pictures, and whose they are, of which each answer tells."""

    def ask(steps, folder):
        answers = []
        for number, (data, request) in enumerate(steps):
            client = replace(
                make_client("north", data=data),
                min_count=LEAST,
                store=ClientStore(tmp_path / f"run {number}"),
                releases=FolderReleases(tmp_path / folder),
            )
            request = dict(request)
            together = request.pop("together", False)
            options = EvaluateRequest(split="test", subgroups=SUBGROUPS, **request).model_dump()
            broadcast = Broadcast("north", "0-federate", 1, "evaluate", options=options)
            (evaluate_together if together else door.evaluate)(broadcast, client)
            answers.append(sets_told.copy())
            sets_told.clear()
        return answers

    sets_told, admitted = [], disclosure.disclosable_traits

    def spy(client, part, traits, *columns):
        masks = admitted(client, part, traits, *columns)
        sets = (part, *(part.where(keep) for keep in masks.values()))
        sets_told.extend(frozenset(zip(of.rows.tolist(), of.people.tolist(), strict=True)) for of in sets)
        return masks

    monkeypatch.setattr(door, "disclosable_traits", spy)
    return ask


def all_of_enough(client, kind, sets):
    """What may leave where nothing is remembered."""
    return {name: part for name, part in sets.items() if part.num_people >= max(client.min_count, 1)}


def exposed(answers):
    """Of how few patients a difference between unions of answers is; 0 where all are of LEAST."""
    unions = [
        {
            frozenset().union(*chosen)
            for size in range(len(answer) + 1)
            for chosen in combinations(answer, size)
        }
        for answer in answers
    ]
    sizes = {
        len({patient for _, patient in one ^ other})
        for first, second in combinations_with_replacement(unions, 2)
        for one in first
        for other in second
    }
    return min((size for size in sizes if 0 < size < LEAST), default=0)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_difference_is_of_few_patients(full, asked, scenario, monkeypatch):
    answers = asked(SCENARIOS[scenario](full), "remembered")
    assert exposed(answers) == 0
    assert all(answers[:1]), "something is told"
    with monkeypatch.context() as as_before:
        as_before.setattr(disclosure, "disclosable", all_of_enough)
        as_before.setattr("personalization.stages.personal_models.disclosable", all_of_enough)
        as_before.setattr(
            disclosure, "one_of_each", lambda part, least: part.where(disclosure.first_of_each(part.lesions))
        )
        assert exposed(asked(SCENARIOS[scenario](full), "forgotten")) > 0, "the control"


def test_the_same_pictures_are_told_of_as_often_as_models_come(full, asked):
    answers = asked([(full, ALL)] * 5, "remembered")
    assert [sum(map(len, answer)) for answer in answers] == [60] * 5


def test_a_hospital_that_grows_tells_of_the_new_once_they_are_enough(full, asked):
    steps = [(of(full, number > PICTURES), ALL) for number in (50, 52, 54, 60)]
    answers = asked(steps, "remembered")
    assert [sum(map(len, answer)) for answer in answers] == [50, 50, 50, 60]


def test_after_one_patient_withdrew_nothing_is_told_of_the_split_and_after_enough_did_all_is(full, asked):
    """Never the exact new counts; the price is that no subgroup is told of."""
    withdrawn, many = of(full, PICTURES != 31), of(full, (PICTURES < 30) | (PICTURES >= 30 + LEAST + 1))
    _, after, enough = asked([(full, ALL), (withdrawn, ALL), (many, ALL)], "remembered")
    assert after == []
    assert sum(map(len, enough)) == 60 - LEAST - 1
    [leaked] = asked([(withdrawn, ALL)], "forgotten")
    assert sum(map(len, leaked)) == 59, "the control"
