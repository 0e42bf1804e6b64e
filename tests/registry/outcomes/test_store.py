"""The database of outcomes: what is recorded and given, refused, corrected, withdrawn and forgotten."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest

from registry.database.connection import open_database, reading, writing
from registry.errors import DatabaseError, OtherSchema
from registry.outcomes.metrics import monitored
from registry.outcomes.store import (
    ANY_KEY,
    AnsweringDiffers,
    Outcome,
    OutcomeGiven,
    OutcomeRefused,
    OutcomeStore,
    UnknownAnswer,
)
from tests.registry.kept_answers import ANSWERING, FIRST, kept_answer

LATER = date(2026, 3, 1)


def outcome(answer, label="MEL", **options):
    return Outcome(answer.id, label, "histopathology", LATER, **options)


def rows(store, table):
    with reading(store.engine) as connection:
        return connection.exec_driver_sql(f"SELECT * FROM {table}").fetchall()


@pytest.fixture
def answer(store):
    """A recorded answer of the key k1."""
    answer = kept_answer()
    store.record([answer])
    return answer


def test_an_answer_is_kept_and_counted_once_however_often_it_is_recorded(store):
    one, two = kept_answer(), kept_answer(malignancy=0.1)
    store.record([one, two, one])
    store.record([one])
    store.record([])
    (found,) = monitored(store, "demo")
    assert found.answered.tolist() == [[0, 1, 0, 1]]
    assert (found.reported, len(found.arrived)) == (2, 0)


def test_no_time_of_day_no_score_and_nothing_of_a_person_is_stored(store):
    store.record([kept_answer(malignancy=0.8765)])
    ((id_, day, answering, key, cell, label, in_set),) = rows(store, "answers")
    assert re.fullmatch("[0-9a-f-]{36}", id_)
    assert (str(day), answering, key, cell, label, in_set) == ("2026-01-01", 1, "k1", 6, 0, "100")


def test_an_outcome_is_taken_corrected_and_withdrawn_and_each_step_is_kept(store, answer):
    steps = [
        (outcome(answer), "new"),
        (outcome(answer), "known already"),
        (outcome(answer, "NV"), "is known (MEL, histopathology, 2026-03-01); mark this one"),
        (outcome(answer, "NV", corrects=True), "corrected"),
        (outcome(answer, None), "withdrawn"),
        (replace(outcome(answer, None), confirmed_by="follow-up"), "known already"),
        (outcome(answer), "is known (withdrawn, histopathology"),
        (outcome(answer, corrects=True, of_file=True), "has been replaced since"),
        (outcome(answer, "BCC", corrects=True), "corrected"),
    ]
    for given, expected in steps:
        (result,) = store.give([given], "k1", LATER)
        if isinstance(result, OutcomeRefused):
            assert isinstance(result, OutcomeGiven)
            assert expected in str(result)
        else:
            assert result == expected
    said = store.answer(answer.id, "k1").said
    assert [one.label for one in said] == ["MEL", "NV", None, "BCC"]
    assert store.answer(answer.id, "k1").current == said[-1]
    assert [row[-1] for row in rows(store, "outcomes")] == ["k1"] * 4


def test_several_outcomes_of_one_answer_are_taken_in_their_order(store, answer):
    given = [outcome(answer), outcome(answer, "NV"), outcome(answer, "NV", corrects=True)]
    new, refused, corrected, known = store.give([*given, outcome(answer, "NV")], ANY_KEY, LATER)
    assert (new, corrected, known) == ("new", "corrected", "known already")
    assert isinstance(refused, OutcomeGiven)
    assert monitored(store, "demo")[0].malignant.tolist() == [False]
    assert [row[-1] for row in rows(store, "outcomes")] == [None, None]  # an operator's


def test_a_page_corrects_the_outcome_that_it_showed_and_no_other(store, answer):
    store.give([outcome(answer)], "k1")
    number = store.answer(answer.id, "k1").current.number
    other = outcome(answer, "NV", corrects=True, instead_of=number + 1)
    (refused,) = store.give([other], "k1")
    assert isinstance(refused, OutcomeGiven)
    assert store.give([replace(other, instead_of=number)], "k1") == ["corrected"]


def test_another_keys_answer_is_as_unknown_as_one_that_never_was(store, answer):
    results = store.give([outcome(answer), outcome(kept_answer())], "k2", LATER)
    assert [type(one) for one in results] == [UnknownAnswer, UnknownAnswer]
    assert len({str(one) for one in results}) == 1
    assert store.answer(answer.id, "k2") is None
    assert store.answer(answer.id, ANY_KEY) == store.answer(answer.id, "k1")  # the controls
    assert store.give([outcome(answer)], "k1", LATER) == ["new"]


def test_an_answer_is_shown_without_the_subgroup(store, answer):
    seen = store.answer(answer.id, "k1")
    assert (seen.day, seen.model, seen.version, seen.decision) == (FIRST, "demo", 1, "report")
    assert (seen.label, seen.in_set, seen.labels, seen.current) == ("MEL", ("MEL",), ANSWERING.labels, None)
    assert ANSWERING.subgroup not in repr(seen)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("MELA\x1b[2J", r"the label 'MELA\x1b[2J' is none of the version that answered; did you mean MEL?"),
        (None, "there is no outcome of this answer to withdraw"),
    ],
)
def test_what_cannot_be_is_refused(store, answer, label, why):
    (refused,) = store.give([outcome(answer, label)], "k1", LATER)
    assert str(refused).startswith(why.split(";")[0])
    assert (label is None) or str(refused).endswith("valid: MEL, NV, BCC")


def test_a_refusal_can_be_said_without_the_value_that_was_sent():
    why = OutcomeRefused("the id {wrote} is none", "Erika Musterfrau")
    assert (str(why), why.unquoted) == ("the id 'Erika Musterfrau' is none", "the id something else is none")
    assert OutcomeRefused("another is known").unquoted == "another is known"


def test_a_forgotten_answer_leaves_neither_count_nor_outcome(store):
    old, new = kept_answer(0), kept_answer(31)
    store.record([old, new])
    store.give([outcome(old), outcome(new)], "k1", LATER)
    assert store.forget(FIRST.replace(month=2)) == 1
    assert [row[0] for row in rows(store, "answers")] == [new.id]
    assert [row[1] for row in rows(store, "outcomes")] == [new.id]
    assert monitored(store, "demo")[0].answered.sum() == 1


def test_another_database_and_another_schema_are_refused(url):
    engine = open_database(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE patients (name TEXT)")
    with pytest.raises(DatabaseError, match="contains other tables"):
        OutcomeStore.open(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("DROP TABLE patients")
    with pytest.raises(DatabaseError, match="is empty"):
        OutcomeStore.open(url, create=False)
    OutcomeStore.open(url).close()
    OutcomeStore.open(url, create=False).close()
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE outcomes_schema SET number = 99")
    with pytest.raises(OtherSchema, match="schema 99"):
        OutcomeStore.open(url)
    engine.dispose()


def test_several_processes_may_make_its_tables_and_record_the_same_version(url):
    def record(_):
        with OutcomeStore.open(url) as store:
            store.record([kept_answer() for _ in range(20)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(record, range(4)))
    with OutcomeStore.open(url) as store:
        (found,) = monitored(store, "demo")
    assert found.answered.sum() == 80


def test_another_version_under_a_known_number_is_refused(store, answer):
    for other in (
        replace(ANSWERING, labels=tuple(reversed(ANSWERING.labels))),
        replace(ANSWERING, made_for="light"),
    ):
        for again in (store, OutcomeStore(store.engine)):
            with pytest.raises(AnsweringDiffers, match="another version 1 of demo"):
                again.record([kept_answer(answering=other)])
    assert len(rows(store, "answers")) == 1
