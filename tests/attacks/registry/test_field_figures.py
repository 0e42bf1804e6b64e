"""Figures of the field, day by day, tell of one patient: what is released of them does not.

Who reads a dashboard sees yesterday's figures and today's. He knows of one patient that the outcome came
today, as a colleague of the ward does, and wants to know what it was. With the figures as they are he is
right each time; with the released ones he learns what ten patients had together.
"""

from datetime import date, timedelta

import numpy as np
import pytest

from registry.outcomes.monitoring import field_report, released_figures
from registry.outcomes.records import TOGETHER, Outcome, settled
from registry.outcomes.store import ANYBODY, OutcomeStore
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
    (told,) = store.give([Outcome(answer.id, label, "histopathology", ON, corrects)], ANYBODY, day)
    assert told in ("new", "corrected", "withdrawn")


def exact(store):
    """What whoever holds the database sees: outcomes, malignant ones, and what was found."""
    (one,) = field_report(store, "demo", lambda number: None)
    of = one.figures
    hits = (float(of.seen_sensitivity.value), float(of.seen_specificity.value))
    return of.confirmed, of.malignant, *hits


def released(store):
    """What everybody else sees of the same."""
    (one,) = released_figures(store, "demo")
    of = one.figures
    if of is None:
        return one.outcomes, None, None, None
    return of.confirmed, of.malignant, float(of.seen_sensitivity.value), float(of.seen_specificity.value)


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
    assert after[0] == FILLED + TOGETHER  # and they do move
    assert 0 < after[1] - seen[1] < TOGETHER


@pytest.mark.parametrize("label", ["MEL", None], ids=["corrected", "taken back"])
def test_a_correction_shows_with_nine_others_alone(store, label):
    some = fill(store)
    before, truth = released(store), exact(store)
    give(store, some[1], label, FIRST + timedelta(days=1), corrects=True)  # it was benign
    assert exact(store) != truth  # the control: whoever sees these knows what became of whom
    assert released(store) == before
    others = answers(TOGETHER - 2, seed=3)
    store.record(others)
    for answer in others:
        give(store, answer, "NV", FIRST + timedelta(days=2))
        assert released(store) == before
    last = kept_answer()
    store.record([last])
    give(store, last, "MEL", FIRST + timedelta(days=3))
    assert released(store) != before


def test_a_few_malignant_ones_are_not_told_of(store):
    some = answers(2 * TOGETHER)
    store.record(some)
    for place, answer in enumerate(some):
        give(store, answer, "MEL" if place < TOGETHER - 1 else "NV", FIRST)
    assert exact(store)[1] == TOGETHER - 1
    assert released(store) == (2 * TOGETHER, None, None, None)


class Row:
    """What was said of a patient."""

    def __init__(self, id, withdrawn=False):
        self.id, self.withdrawn = id, withdrawn


def test_two_days_differ_by_ten_patients_or_by_none():
    """Whatever is said of whom, in any order: what stands moves with whole groups alone."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        rows = [Row(str(rng.integers(30)), bool(rng.random() < 0.2)) for _ in range(60)]
        before, about = settled([]), set()
        for n in range(1, len(rows) + 1):
            about.add(rows[n - 1].id)
            now = settled(rows[:n])
            if now != before:
                assert len(about) == TOGETHER
                before, about = now, set()
            assert len(about) < TOGETHER


def test_whoever_is_told_of_again_and_again_is_one_patient():
    rows = [Row("a", bool(n % 2)) for n in range(5 * TOGETHER)]
    assert settled(rows) == []


def test_when_a_group_is_whole_does_not_depend_on_what_was_told():
    """Else that there is no new figure would itself tell something."""
    ids = [str(number) for number in range(25)]
    taken_back = settled([Row(one, withdrawn=True) for one in ids])
    assert (len(settled([Row(one) for one in ids])), taken_back) == (2 * TOGETHER, [])
