"""An alarm stays until somebody closes it with a reason, whatever becomes of the outcomes that brought it."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete

from registry.database.connection import writing
from registry.errors import AlarmClosed, NotFound, PersonRefused, ReleaseRefused
from registry.gates import GateSet
from registry.gates.outcomes import OutcomesGate
from registry.outcomes.monitoring import field_report
from registry.outcomes.records import AnswerCountRow, AnswerRow, Outcome, OutcomeRow
from tests.registry.alarms.conftest import MODEL, alarmed, answering, break_promise, on
from tests.registry.kept_answers import kept_answer

pytestmark = pytest.mark.sqlite_first


def computed(registry, store):
    """What the outcomes say today, nothing where they are gone."""
    report = field_report(store, MODEL, lambda number: registry.manifest(registry.version(MODEL, number)))
    return [kept for one in report for kept in one.alarms]


def refused(registry, version=1):
    """Whether the gate `outcomes` refuses a version."""
    report = registry.judge(MODEL, [version], to="staging")
    return report.refused


@pytest.fixture
def gated(model):
    """The model, of which the gate `outcomes` alone is asked."""
    model.set_gates(GateSet(gates=(OutcomesGate(),)), reason="a test")
    return model


def correct(store, missed):
    """Says of every missed melanoma that it was none."""
    store.give([Outcome(one.id, "NV", "histopathology", on(50), True) for one in missed], "k1", on(50))


def test_an_alarm_stays_when_the_outcomes_are_corrected(gated, store):
    missed = break_promise(store, 1)
    gated.tell_alarms(MODEL, gated.field(MODEL, store))
    correct(store, missed)
    assert computed(gated, store) == []  # what was told before
    (alarm,) = gated.field(MODEL, store).alarms
    assert alarm.is_open
    assert refused(gated)
    assert not refused(gated, 2)


def test_an_alarm_stays_when_answers_are_forgotten_and_further_versions_answer(gated, store):
    alarmed(gated, store, 1)
    store.forget(on(70))
    store.record([kept_answer(answering=answering(number)) for number in (2, 3, 4)])
    assert computed(gated, store) == []
    assert len(gated.field(MODEL, store).open) == 1
    assert refused(gated)


def test_a_wiped_database_closes_no_alarm(gated, store):
    alarmed(gated, store, 1)
    with writing(store.engine) as connection:
        for table in (OutcomeRow, AnswerRow, AnswerCountRow):
            connection.execute(delete(table))
    assert computed(gated, store) == []
    assert len(gated.field(MODEL, store).open) == 1
    assert refused(gated)


def test_closing_takes_a_reason_and_is_for_good(gated, store):
    alarmed(gated, store, 1)
    with pytest.raises(ReleaseRefused, match="reason"):
        gated.close_alarm(MODEL, 1, reason=None)
    with pytest.raises(NotFound, match="2"):
        gated.close_alarm(MODEL, 2, reason="looked at")
    assert refused(gated)
    event = gated.close_alarm(MODEL, 1, reason="one file of old outcomes")
    assert (event.kind, event.reason, event.versions) == ("alarm-closed", "one file of old outcomes", (1,))
    assert len(computed(gated, store)) == 1  # the outcomes say what they said
    assert gated.field(MODEL, store).open == ()
    assert not refused(gated)
    with pytest.raises(AlarmClosed, match="one file of old outcomes"):
        gated.close_alarm(MODEL, 1, reason="again")


def test_after_closing_a_promise_is_watched_anew(gated, store):
    alarmed(gated, store, 1)
    gated.close_alarm(MODEL, 1, reason="looked at")
    break_promise(store, 1, first=70)
    (new,) = gated.field(MODEL, store).untold
    assert new.day > on(60)
    (event,) = gated.tell_alarms(MODEL, gated.field(MODEL, store))
    assert event.details["alarm"] == 2
    assert [one.is_open for one in gated.alarms(MODEL)] == [False, True]


def test_a_promise_that_is_kept_after_closing_brings_no_alarm(gated, store):
    alarmed(gated, store, 1)
    gated.close_alarm(MODEL, 1, reason="looked at")
    break_promise(store, 1, first=70, found=48, lost=2)
    assert len(computed(gated, store)) == 1
    assert gated.field(MODEL, store).open == ()


def test_an_operator_signs_what_is_told_and_closed(gated, store, person):
    break_promise(store, 1)
    uploader, operator = person("ute", "uploader"), person("olga")
    for nobody in (gated, uploader):
        with pytest.raises(PersonRefused):
            nobody.tell_alarms(MODEL, nobody.field(MODEL, store))
    operator.tell_alarms(MODEL, gated.field(MODEL, store))
    for nobody in (gated, uploader):
        with pytest.raises(PersonRefused):
            nobody.close_alarm(MODEL, 1, reason="it is in my way")
    assert len(gated.field(MODEL, store).open) == 1
    operator.close_alarm(MODEL, 1, reason="looked at")
    assert gated.verify() == ()


def test_many_tell_of_one_alarm_once(gated, store, places):
    break_promise(store, 1)

    def tell(_):
        with places.open() as another:
            return another.tell_alarms(MODEL, another.field(MODEL, store))

    with ThreadPoolExecutor(4) as pool:
        told = [event for events in pool.map(tell, range(4)) for event in events]
    assert len(told) == 1


def test_the_command_tells_shows_and_closes(model, store, command):
    break_promise(store, 1)
    shown = command("field", MODEL, "--json")
    assert shown.code == 1
    told = json.loads(command("card", MODEL, "--version", 1, "--json").out)["versions"][0]["alarms"]
    assert told == [str(model.alarms(MODEL)[0])]
    (alarm,) = json.loads(shown.out)["alarms"]
    assert (alarm["number"], alarm["version"], alarm["closed"]) == (1, 1, None)
    assert model.history(MODEL)[-1].kind == "alarm"
    assert "OPEN: alarm 1: version 1 broke its promise to dark" in command("field", MODEL).out
    assert command("field", MODEL, "--close", 1).code == 1
    assert command("field", MODEL, "--close", 1, "--reason", "looked at").code == 0
    ended = command("field", MODEL)
    assert ended.code == 0
    assert "alarm 1: " in ended.out
    assert "(looked at)" in ended.out
    assert "reason: looked at" in command("history", MODEL).out


def test_whoever_may_not_tell_history_is_told_so(model, store, command, person):
    break_promise(store, 1)
    person("olga")
    ended = command("field", MODEL)
    assert ended.code == 1
    assert "OPEN, and not in history yet" in ended.out
    assert "History has not been told" in ended.out
    assert model.alarms(MODEL) == ()
