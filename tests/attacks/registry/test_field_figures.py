"""Figures of the field, day by day, tell of one patient: what is released of them does not.

Who reads a dashboard sees yesterday's figures and today's. He knows of one patient that the outcome came
today, as a colleague of the ward does, and wants to know what it was. With the figures as they are he is
right each time; with the released ones he learns what ten patients had together.
"""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pytest

from registry.outcomes.metrics import GROUP, complete_groups, released_report, report
from registry.outcomes.store import ANY_KEY, Outcome, OutcomeStore
from tests.registry.kept_answers import FIRST, kept_answer

FILLED = 40
"""Outcomes that are known before: enough for figures, and whole groups."""

ON = date(2026, 3, 1)


@pytest.fixture
def store(tmp_path):
    with OutcomeStore.open(f"sqlite:///{tmp_path / 'outcomes.db'}") as opened:
        yield opened


def answers(n, seed=0):
    rng = np.random.default_rng(seed)
    return [kept_answer(malignancy=float(one)) for one in rng.random(n)]


def give(store, answer, label, day, *, corrects=False):
    (told,) = store.give([Outcome(answer.id, label, "histopathology", ON, corrects)], ANY_KEY, day)
    assert told in ("new", "corrected", "withdrawn")


def exact(store):
    """What whoever holds the database sees: outcomes, malignant ones, and what was found."""
    (one,) = report(store, "demo", lambda number: None)
    return one.outcomes, one.malignant, *shares(one)


def released(store):
    """What everybody else sees of the same."""
    (one,) = released_report(store, "demo")
    return one.outcomes, one.malignant, *(shares(one) if one.metrics else (None, None))


def shares(one):
    return one.metrics.sensitivity.seen.value, one.metrics.specificity.seen.value


def guessed(before, after):
    """Whether the one patient between two days had a malignant lesion; None where the reader cannot tell."""
    more, malignant = after[0] - before[0], (after[1] or 0) - (before[1] or 0)
    if more == 0 and before[1] is not None and malignant:
        return malignant > 0  # a correction
    return None if more != 1 else malignant == 1


def fill(store):
    """An outcome of each of `FILLED` patients, a third of them malignant."""
    some = answers(FILLED)
    store.record(some)
    for place, answer in enumerate(some):
        give(store, answer, "MEL" if place % 3 == 0 else "NV", FIRST)
    return some


def right(store, see):
    """How often the reader is right about who comes day by day, and how often he says anything."""
    those = answers(12, seed=1)
    store.record(those)
    truth = np.random.default_rng(2).random(len(those)) < 0.5
    found = []
    for day, (answer, malignant) in enumerate(zip(those, truth, strict=True)):
        before = see(store)
        give(store, answer, "MEL" if malignant else "NV", FIRST + timedelta(days=day + 1))
        found.append((guessed(before, see(store)), bool(malignant)))
    said = [guess == so for guess, so in found if guess is not None]
    return sum(said), len(said), len(found)


def test_the_control_figures_as_they_are_tell_of_each_patient(store):
    fill(store)
    correct, said, asked = right(store, exact)
    assert correct == said == asked


def test_of_released_ones_the_reader_learns_of_no_single_patient(store):
    fill(store)
    seen = released(store)
    assert seen[0] == FILLED  # there are figures to be seen
    assert seen[1] is not None
    assert right(store, released)[1] == 0
    after = released(store)
    assert after[0] == FILLED + GROUP  # and they do move
    assert 0 < after[1] - seen[1] < GROUP


@pytest.mark.parametrize("label", ["MEL", None], ids=["corrected", "taken back"])
def test_a_correction_shows_with_nine_others_alone(store, label):
    some = fill(store)
    before, truth = released(store), exact(store)
    give(store, some[1], label, FIRST + timedelta(days=1), corrects=True)  # it was benign
    assert exact(store) != truth  # the control: whoever sees these knows what became of whom
    assert released(store) == before
    others = answers(GROUP - 2, seed=3)
    store.record(others)
    for answer in others:
        give(store, answer, "NV", FIRST + timedelta(days=2))
        assert released(store) == before
    last = kept_answer()
    store.record([last])
    give(store, last, "MEL", FIRST + timedelta(days=3))
    assert released(store) != before


def test_a_few_malignant_ones_are_not_told_of(store):
    some = answers(2 * GROUP)
    store.record(some)
    for place, answer in enumerate(some):
        give(store, answer, "MEL" if place < GROUP - 1 else "NV", FIRST)
    assert exact(store)[1] == GROUP - 1
    assert released(store) == (2 * GROUP, None, None, None)


@dataclass(frozen=True)
class Row:
    """What was given about a patient."""

    id: str
    truth: int | None = 0


def test_two_days_differ_by_ten_patients_or_by_none():
    """Whatever is given about whom, in any order: what counts moves with complete groups alone."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        rows = [Row(str(rng.integers(30))) for _ in range(60)]
        before, about = 0, set()
        for n in range(1, len(rows) + 1):
            about.add(rows[n - 1].id)
            if (now := len(complete_groups(rows[:n]))) != before:
                assert (len(about), now) == (GROUP, n)
                before, about = now, set()
            assert len(about) < GROUP
        assert before


def test_outcomes_of_one_patient_make_no_group():
    assert complete_groups([Row("a", n % 2) for n in range(5 * GROUP)]) == []


@pytest.mark.parametrize("truth", [0, None], ids=["given", "withdrawn"])
def test_when_a_group_is_complete_does_not_depend_on_what_was_given(truth):
    """Else that there is no new figure would itself tell something."""
    assert len(complete_groups([Row(str(number), truth) for number in range(25)])) == 2 * GROUP
