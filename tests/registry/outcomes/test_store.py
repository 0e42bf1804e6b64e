"""The database of outcomes: what is recorded and given, refused, corrected, withdrawn and forgotten."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest

from registry.database.connection import open_database, reading, writing
from registry.errors import DatabaseError, OtherSchema
from registry.outcomes.counts import field_counts
from registry.outcomes.records import Outcome, OutcomeGiven, UnknownAnswer
from registry.outcomes.store import ANYBODY, AnsweringDiffers, OutcomeStore, Refusal
from tests.registry.kept_answers import ANSWERING, FIRST, kept_answer

LATER = date(2026, 3, 1)


def outcome(answer, label="MEL", by="histopathology", on=LATER, corrects=False):
    return Outcome(answer.id, label, by, on, corrects)


def rows(store, table):
    with reading(store.engine) as connection:
        return connection.exec_driver_sql(f"SELECT * FROM {table}").fetchall()


def test_an_answer_is_kept_and_counted_once_however_often_it_is_recorded(store):
    one, two = kept_answer(), kept_answer(malignancy=0.1)
    store.record([one, two, one])
    store.record([one])
    assert len(rows(store, "answers")) == 2
    assert sum(n for *_, n in rows(store, "answer_counts")) == 2
    (counts,) = field_counts(store, "demo")
    assert counts.answered.sum() == 2
    assert len(counts.cell) == 0


def test_what_is_kept_holds_no_time_of_day_no_picture_and_nothing_of_a_person(store):
    store.record([kept_answer()])
    ((id_, day, answering, key, cell, label, in_set),) = rows(store, "answers")
    assert re.fullmatch("[0-9a-f-]{36}", id_)
    assert (str(day), answering, key, label, in_set) == ("2026-01-01", 1, "k1", 0, "100")
    assert isinstance(cell, int)


def test_an_outcome_is_taken_corrected_and_withdrawn_and_each_step_is_kept(store):
    answer = kept_answer()
    store.record([answer])
    assert store.give([outcome(answer)], "k1", LATER) == ["new"]
    assert store.give([outcome(answer)], "k1", LATER) == ["known already"]
    (refused,) = store.give([outcome(answer, "NV")], "k1", LATER)
    assert isinstance(refused, Refusal)
    assert isinstance(refused.why, OutcomeGiven)
    assert "MEL, histopathology, 2026-03-01" in str(refused.why)
    assert store.give([outcome(answer, "NV", corrects=True)], "k1", LATER) == ["corrected"]
    assert field_counts(store, "demo")[0].truth.tolist() == [1]
    assert store.give([outcome(answer, None)], "k1", LATER) == ["withdrawn"]
    assert field_counts(store, "demo")[0].truth.tolist() == []
    (refused,) = store.give([outcome(answer)], "k1", LATER)  # as where a file is imported once more
    assert "is known (taken back, histopathology" in str(refused.why)
    assert store.give([outcome(answer, "BCC", corrects=True)], "k1", LATER) == ["corrected"]
    assert [row[-2] for row in rows(store, "outcomes")] == [False, False, False, True]


def test_several_outcomes_of_one_answer_are_taken_in_their_order(store):
    answer = kept_answer()
    store.record([answer])
    given = [
        outcome(answer),
        outcome(answer, "NV"),
        outcome(answer, "NV", corrects=True),
        outcome(answer, "NV"),
    ]
    new, refused, corrected, known = store.give(given, ANYBODY, LATER)
    assert (new, corrected, known) == ("new", "corrected", "known already")
    assert isinstance(refused, Refusal)
    assert field_counts(store, "demo")[0].truth.tolist() == [1]


def test_another_keys_answer_is_as_unknown_as_one_that_never_was(store):
    answer = kept_answer(key="k1")
    store.record([answer])
    told = store.give([outcome(answer), outcome(kept_answer())], "k2", LATER)
    assert [type(one.why) for one in told] == [UnknownAnswer, UnknownAnswer]
    assert len({str(one.why) for one in told}) == 1
    assert store.give([outcome(answer)], "k1", LATER) == ["new"]  # the control: its own key may


def test_a_label_of_another_model_is_refused_with_those_there_are(store):
    answer = kept_answer()
    store.record([answer])
    (refused,) = store.give([outcome(answer, "MELA\x1b[2J")], "k1", LATER)
    assert "the label 'MELA\\x1b[2J' is none of the version that answered" in str(refused.why)
    assert str(refused.why).endswith("valid: MEL, NV, BCC")


def test_nothing_can_be_withdrawn_that_is_not_there(store):
    answer = kept_answer()
    store.record([answer])
    (refused,) = store.give([outcome(answer, None)], "k1", LATER)
    assert "no outcome of this answer to withdraw" in str(refused.why)


def test_what_is_forgotten_leaves_neither_answer_nor_count_nor_outcome(store):
    old, new = kept_answer(0), kept_answer(40)
    store.record([old, new])
    store.give([outcome(old), outcome(new)], "k1", LATER)
    assert store.forget(FIRST.replace(month=2)) == 1
    assert [row[0] for row in rows(store, "answers")] == [new.id]
    assert [row[1] for row in rows(store, "outcomes")] == [new.id]
    assert sum(n for *_, n in rows(store, "answer_counts")) == 1


def test_a_database_of_something_else_and_one_of_a_newer_dermfed_are_refused(url):
    engine = open_database(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE patients (name TEXT)")
    with pytest.raises(DatabaseError, match="holds other tables"):
        OutcomeStore.open(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("DROP TABLE patients")
    OutcomeStore.open(url).close()
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE outcomes_schema SET number = 99")
    with pytest.raises(OtherSchema, match="schema 99"):
        OutcomeStore.open(url)
    engine.dispose()


def test_several_processes_may_make_its_tables_and_record_the_same_version(url):
    def record(_):
        store = OutcomeStore.open(url)
        store.record([kept_answer() for _ in range(20)])
        store.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(record, range(4)))
    store = OutcomeStore.open(url)
    (counts,) = field_counts(store, "demo")
    assert counts.answered.sum() == 80
    store.close()


def test_another_version_under_a_known_number_is_refused(store):
    store.record([kept_answer()])
    other = replace(ANSWERING, labels=tuple(reversed(ANSWERING.labels)))
    for again in (store, OutcomeStore(store.engine)):
        with pytest.raises(AnsweringDiffers, match="another version 1 of demo"):
            again.record([kept_answer(answering=other)])
    assert len(rows(store, "answers")) == 1


def test_an_empty_database_is_refused_where_one_is_looked_for(url, tmp_path):
    with pytest.raises(DatabaseError):
        OutcomeStore.open(url, create=False)
    OutcomeStore.open(url).close()
    OutcomeStore.open(url, create=False).close()
