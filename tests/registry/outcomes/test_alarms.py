"""An alarm stays until it is closed with a reason, whatever becomes of the outcomes that brought it."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete

from registry.database.connection import writing
from registry.environment import OUTCOMES
from registry.errors import AlarmClosed, NotFound, PersonRefused, ReleaseRefused
from registry.gates import GateSet
from registry.gates.running import OutcomesGate
from registry.outcomes.metrics import report
from registry.outcomes.store import AnswerRow, Outcome, OutcomeRow, OutcomeStore
from tests.registry.conftest import MODEL
from tests.registry.kept_answers import FIRST, kept_answer, miss_target, of_version, on, promising


@pytest.fixture
def store(kind, tmp_path, request, monkeypatch):
    """The database of outcomes, which the environment names; of the kind that the registry is of."""
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    if kind != "sqlite":
        url = request.getfixturevalue("empty_database")
    monkeypatch.setenv(OUTCOMES, url)
    with OutcomeStore.open(url) as opened:
        yield opened


@pytest.fixture
def model(registry, bundle):
    """A registry with four versions for everybody, whose target for dark skin is a sensitivity of 0.9."""
    registry.add([bundle(metrics=promising(), seed=seed) for seed in range(4)])
    registry.set_gates(GateSet(gates=(OutcomesGate(),)), reason="a test")
    return registry


def computed(registry, store):
    """The targets that are missed by what the outcomes say now, nothing where they are gone."""
    found = report(store, MODEL, lambda number: registry.manifest(registry.version(MODEL, number)))
    return [held for one in found for held in one.targets if held.broken_on is not None]


def refused(registry, version=1):
    """Whether the gate `field` refuses a version."""
    return registry.judge(MODEL, [version], to="staging").refused


def alarmed(registry, store):
    """Has version 1 miss its target, and the alarm recorded; returns the missed lesions."""
    missed = miss_target(store, 1)
    assert len(registry.record_alarms(MODEL, registry.field(MODEL, store))) == 1
    return missed


def correct(store, missed):
    store.give([Outcome(one.id, "NV", "histopathology", on(50), True) for one in missed], "k1", on(50))


def forget(store, _):
    store.forget(on(70))
    store.record([kept_answer(answering=of_version(number, MODEL)) for number in (2, 3, 4)])


def wipe(store, _):
    with writing(store.engine) as connection:
        for table in (OutcomeRow, AnswerRow):
            connection.execute(delete(table))


@pytest.mark.parametrize("change", [correct, forget, wipe])
def test_nothing_that_is_done_to_outcomes_closes_an_alarm(model, store, change):
    missed = alarmed(model, store)
    assert computed(model, store)
    change(store, missed)
    assert computed(model, store) == []
    found = model.field(MODEL, store)
    assert [(one.number, one.version, one.subgroup, one.of) for one in found.open] == [
        (1, 1, "dark", "sensitivity")
    ]
    assert found.new == ()
    assert refused(model)
    assert not refused(model, 2)


def test_an_alarm_says_what_was_missed_and_is_recorded_as_it_was_found(model, store):
    miss_target(store, 1)
    (new,) = model.field(MODEL, store).new
    assert (new.number, new.event, new.closed, new.least) == (None, None, None, 0.9)
    assert on(38) <= new.day <= on(43)
    assert new.evidence >= new.limit == 20
    assert new.outcomes == 300
    (event,) = model.record_alarms(MODEL, model.field(MODEL, store))
    (alarm,) = model.alarms(MODEL)
    assert (alarm.number, alarm.event, alarm.key) == (1, event.id, (1, "dark", "sensitivity"))
    assert (alarm.day, alarm.evidence, alarm.outcomes) == (new.day, new.evidence, new.outcomes)
    assert str(alarm) == (
        f"alarm 1: version 1 misses its target for dark, a sensitivity of 0.90 or more, since {new.day}"
    )
    assert model.record_alarms(MODEL, model.field(MODEL, store)) == ()


def test_closing_takes_a_reason_and_is_for_good(model, store):
    alarmed(model, store)
    with pytest.raises(ReleaseRefused, match="reason"):
        model.close_alarm(MODEL, 1, reason=None)
    with pytest.raises(NotFound, match="2"):
        model.close_alarm(MODEL, 2, reason="looked at")
    assert refused(model)
    event = model.close_alarm(MODEL, 1, reason="one file of old outcomes")
    assert (event.kind, event.reason, event.versions) == ("alarm-closed", "one file of old outcomes", (1,))
    assert len(computed(model, store)) == 1  # the outcomes say what they said
    found = model.field(MODEL, store)
    assert (found.open, found.new, len(found.alarms)) == ((), (), 1)
    assert not refused(model)
    miss_target(store, 1, first=60, days=1)  # on the day of the closing, which does not count any more
    (subgroup,) = model.field(MODEL, store).subgroups
    assert [one.outcomes for one in subgroup.targets] == [0]
    with pytest.raises(AlarmClosed, match="one file of old outcomes"):
        model.close_alarm(MODEL, 1, reason="again")


@pytest.mark.parametrize(("lost", "alarms"), [(25, 1), (2, 0)])
def test_a_closed_target_is_monitored_again_with_what_arrives_later(model, store, lost, alarms):
    alarmed(model, store)
    model.close_alarm(MODEL, 1, reason="looked at")
    miss_target(store, 1, first=70, found=50 - lost, lost=lost)
    found = model.field(MODEL, store)
    assert [one.outcomes for one in found.subgroups[0].targets] == [300]
    assert len(found.open) == alarms
    assert all(one.day > on(69) for one in found.new)
    events = model.record_alarms(MODEL, found)
    assert [event.details["alarm"] for event in events] == [2] * alarms
    closed = [one.closed is not None for one in model.alarms(MODEL)]
    assert closed == [True, *[False] * alarms]


def test_all_targets_of_a_model_share_how_often_one_may_be_accused(model, store):
    store.record([kept_answer(answering=of_version(number, MODEL)) for number in (1, 2, 3)])
    held = [target for one in model.field(MODEL, store).subgroups for target in one.targets]
    assert [target.limit for target in held] == [pytest.approx(60)] * 3


def test_an_operator_signs_what_is_recorded_and_closed(model, store, person):
    miss_target(store, 1)
    uploader, operator = person("ute", "uploader"), person("olga")
    for other in (model, uploader):
        with pytest.raises(PersonRefused):
            other.record_alarms(MODEL, other.field(MODEL, store))
    operator.record_alarms(MODEL, model.field(MODEL, store))
    for other in (model, uploader):
        with pytest.raises(PersonRefused):
            other.close_alarm(MODEL, 1, reason="it is in my way")
    assert len(model.field(MODEL, store).open) == 1
    operator.close_alarm(MODEL, 1, reason="looked at")
    assert model.verify() == ()


def test_many_record_an_alarm_once(model, store, places):
    miss_target(store, 1)

    def record(_):
        with places.open() as another:
            return another.record_alarms(MODEL, another.field(MODEL, store))

    with ThreadPoolExecutor(4) as pool:
        assert len([event for events in pool.map(record, range(4)) for event in events]) == 1


def test_the_command_records_shows_and_closes(model, store, command):
    assert command("field", MODEL).code == 2  # no answer is stored
    miss_target(store, 1)
    shown = command("field", MODEL, "--json")
    assert shown.code == 1
    on_card = json.loads(command("card", MODEL, "--version", 1, "--json").out)["versions"][0]["alarms"]
    assert on_card == [str(model.alarms(MODEL)[0])]
    data = json.loads(shown.out)
    (alarm,) = data["alarms"]
    assert (alarm["number"], alarm["version"], alarm["closed"]) == (1, 1, None)
    (subgroup,) = data["subgroups"]
    assert subgroup["figures"]["sensitivity"]["seen"]["value"] == 0.5
    assert [one["windows"] for one in subgroup["promises"]] == [6]
    assert model.history(MODEL)[-1].kind == "alarm"
    text = command("field", MODEL).out
    assert "OPEN: alarm 1: version 1 misses its target for dark" in text
    assert "0.50 (0.44 to 0.56)" in text
    assert command("field", MODEL, "--close", 1).code == 1
    assert command("field", MODEL, "--close", 1, "--reason", "looked at").code == 0
    ended = command("field", MODEL)
    assert ended.code == 0
    assert "alarm 1: " in ended.out
    assert "(looked at)" in ended.out
    assert "NOT MONITORED: the sensitivity of 0.90 of version 1 for dark" in ended.out
    assert "reason: looked at" in command("history", MODEL).out
    assert json.loads(command("field", MODEL, "--json").out)["alarms"][0]["closed"]["reason"] == "looked at"


def test_the_command_shows_what_triaged_lesions_turned_out_to_be(model, store, command):
    levels = ("ruled-out", "ruled-out", "urgent")
    answers = [kept_answer(answering=of_version(1, MODEL), triage=level) for level in levels]
    store.record(answers)
    labels = ("NV", "BCC", "MEL")
    store.give(
        [Outcome(one.id, label, "histopathology", FIRST) for one, label in zip(answers, labels, strict=True)],
        "k1",
        FIRST,
    )
    (subgroup,) = json.loads(command("field", MODEL, "--json").out)["subgroups"]
    assert [(one["level"], one["malignant"]) for one in subgroup["triage"]] == [
        ("urgent", {"MEL": 1, "BCC": 0}),
        ("routine", {"MEL": 0, "BCC": 0}),
        ("ruled-out", {"MEL": 0, "BCC": 1}),
    ]
    said = " ".join(command("field", MODEL).out.split())
    assert (
        "Triage of version 1 for dark, lesions with an outcome: urgent 1, malignant 1 (0.03 to 1.00): MEL 1, "
        "BCC 0; routine 0, malignant 0: MEL 0, BCC 0; ruled-out 2, malignant 1 (0.01 to 0.99): MEL 0, BCC 1."
    ) in said


def test_without_the_right_to_record_the_command_says_so(model, store, command, person):
    miss_target(store, 1)
    person("olga")
    ended = command("field", MODEL)
    assert (ended.code, model.alarms(MODEL)) == (1, ())
    assert "not in history yet" in ended.out
    assert "New alarms cannot be recorded in history" in ended.out
