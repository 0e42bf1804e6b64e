"""The gate `outcomes`: what became of patients keeps a release out, and how it cannot be got around."""

import pytest

from registry.environment import OUTCOMES
from registry.errors import DatabaseError, InvalidName
from registry.gates import Case, GateSet
from registry.gates.gate import SubgroupOutcomes
from registry.gates.outcomes import OutcomesGate
from registry.outcomes.store import Outcome, OutcomeStore
from registry.releases.compose import outcomes_by_version
from tests.registry.kept_answers import FIRST, kept_answer, of_version

WHERE = "sensitivity_at_threshold"


def in_field(registry, manifests):
    """What outcomes say of these versions."""
    return outcomes_by_version(registry._engine, "demo", manifests, manifests.get)


@pytest.fixture
def demo(registry, bundle):
    """A registry with a model of this name."""
    registry.add([bundle(model="demo")])
    return registry


@pytest.fixture
def releases(bundle, told):
    """The one that runs, and one that would take its place: as its test has it."""

    def make(now):
        old = bundle(metrics=told(WHERE, light=0.9, dark=(0.9, 0.8, 0.95))).manifest
        new = bundle(metrics=told(WHERE, light=0.9, dark=now)).manifest
        return (old,), (new,)

    return make


def judged(running, now, **beside):
    return OutcomesGate().judge(Case(now, running=running, **beside))


def known(low, high, subgroup="dark"):
    return {"global": (SubgroupOutcomes(subgroup, 50, (low, high)),)}


def test_a_test_that_shows_less_than_the_running_release_does_in_the_field_is_refused(releases):
    running, now = releases((0.7, 0.6, 0.8))
    found = judged(running, now, running_outcomes=known(0.85, 0.95))
    assert found.verdict == "refused"
    assert "sensitivity of dark is at most 0.800 by its test" in found.detail
    assert "running release at least 0.850 by outcomes" in found.detail
    running, now = releases((0.7, 0.6, 0.9))
    assert judged(running, now, running_outcomes=known(0.85, 0.95)).verdict == "passed"


def test_the_field_counts_before_the_test(releases):
    running, now = releases((0.9, 0.85, 0.95))
    worse = {"running_outcomes": known(0.85, 0.95), "outcomes": known(0.5, 0.7)}
    assert judged(running, now, **worse).verdict == "refused"


def test_another_subgroups_outcomes_say_nothing_of_this_one(releases):
    running, now = releases((0.7, 0.6, 0.8))
    assert judged(running, now, running_outcomes=known(0.85, 0.95, "light")).verdict != "refused"


def test_a_version_that_stays_is_not_compared_with_itself(releases):
    running, _ = releases((0.9, 0.8, 0.95))
    assert judged(running, running, running_outcomes=known(0.99, 1.0)).verdict == "not applicable"


@pytest.mark.sqlite
def test_where_nobody_says_where_outcomes_are_it_refuses(monkeypatch, releases, tmp_path, demo):
    monkeypatch.delenv(OUTCOMES, raising=False)
    running, now = releases((0.9, 0.85, 0.95))
    manifests = {2: now[0], 1: running[0]}
    with pytest.raises(InvalidName, match=f"{OUTCOMES} names no database"):
        in_field(demo, manifests)
    monkeypatch.setenv(OUTCOMES, f"sqlite:///{tmp_path / 'nothing.db'}")
    with pytest.raises(DatabaseError):
        in_field(demo, manifests)
    assert not (tmp_path / "nothing.db").exists()
    monkeypatch.setenv(OUTCOMES, "mysql://nowhere")
    with pytest.raises(InvalidName, match="mysql"):
        in_field(demo, {})
    assert judged(running, now, outcomes_unreadable="gone").verdict == "refused"
    demo.set_gates(GateSet(gates=(OutcomesGate(),)), reason="of others nothing is asked here")
    demo.promote("demo", [1], to="production", override_gates=True, reason="there are no outcomes yet")
    (result,) = demo.judge_again("demo", alias="production").results
    assert (result.verdict, "mysql" in result.detail) == ("refused", True)


@pytest.mark.sqlite
def test_it_is_shown_what_the_database_holds(monkeypatch, tmp_path, releases, demo):
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    monkeypatch.setenv(OUTCOMES, url)
    running, now = releases((0.9, 0.85, 0.95))
    store = OutcomeStore.open(url)
    answers = [
        kept_answer(day, malignancy=0.1 + 0.8 * (day % 2), answering=of_version(1)) for day in range(60)
    ]
    store.record(answers)
    store.give([Outcome(one.id, "MEL", "follow-up", FIRST) for one in answers], "k1", FIRST)
    store.close()
    found = in_field(demo, {2: now[0], 1: running[0]})
    ((dark,), new) = found[1], found[2]
    assert new == ()
    assert (dark.subgroup, dark.malignant) == ("dark", 60)
    assert dark.sensitivity is not None
    assert dark.sensitivity[0] < 0.5 < dark.sensitivity[1]
    (broken,) = dark.broken
    assert broken.startswith("sensitivity of 0.80 or more, since 2026-")
