"""The gates `non_inferiority` and `outcomes`: what the running release does better keeps another out."""

import pytest

from registry.bundle.labels import Label
from registry.environment import OUTCOMES
from registry.errors import DatabaseError, InvalidName
from registry.gates import Case, GateSet
from registry.gates.gate import SubgroupOutcomes
from registry.gates.running import NonInferiorityGate, OutcomesGate
from registry.outcomes.store import Outcome, OutcomeStore
from registry.releases.compose import outcomes_by_version
from tests.measured import of_kind
from tests.registry.kept_answers import FIRST, WHERE, kept_answer, of_version


def metrics(**subgroups):
    return {"by_subgroup": {name: {"n": 50, **row} for name, row in subgroups.items()}}


LIGHT = metrics(light={"accuracy": 0.9})


@pytest.fixture
def judge(bundle):
    def make(before, after, delta=0.02, **options):
        running = (bundle(metrics=before).manifest,)
        case = Case((bundle(metrics=after, seed=1).manifest,), running=running)
        return NonInferiorityGate(delta=delta, **options).judge(case)

    return make


@pytest.mark.parametrize(("after", "verdict"), [(0.68, "passed"), (0.679, "refused"), (0.9, "passed")])
def test_a_loss_of_delta_itself_passes(judge, after, verdict):
    one = judge(metrics(light={"accuracy": 0.7}), metrics(light={"accuracy": after}))
    assert (one.verdict, one.value) == (verdict, pytest.approx(0.7 - after))


@pytest.mark.parametrize("metric", ["balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold"])
def test_every_metric_counts_unless_some_are_named(judge, metric):
    before = metrics(dark={"accuracy": 0.7, metric: 18 / 21})
    after = metrics(dark={"accuracy": 0.8, metric: 7 / 21})
    one = judge(before, after)
    assert (one.verdict, "for dark: 0.524 (n 50, 0.857 -> 0.333)" in one.detail) == ("refused", True)
    assert judge(before, after, metrics=("accuracy",)).verdict == "passed"
    assert judge(before, metrics(dark={"accuracy": 0.8, metric: None})).untested == ("dark",)


KINDS = (
    Label(code="MEL", name="melanoma", malignancy="malignant"),
    Label(code="BCC", name="basal", malignancy="malignant"),
    Label(code="NV", name="naevus", malignancy="benign"),
)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [(26, "passed"), (22, "passed"), (12, "refused"), (None, "passed")],  # 22 of 28 may be chance
)
def test_a_kind_of_malignancy_loses_where_it_is_certain(bundle, found, verdict):
    """Melanomas are lost behind a sensitivity of all malignant images that stays."""

    def version(found):
        kinds = {} if found is None else {"melanoma": of_kind(28, found=found)}
        row = {"malignant_sensitivity": 0.9, "by_kind": {"basal": of_kind(80, found=79), **kinds}}
        return (bundle(metrics=metrics(dark=row), labels=KINDS).manifest,)

    gate = NonInferiorityGate(delta=0.05, metrics=("malignant_sensitivity",))
    one = gate.judge(Case(version(found), running=version(26)))
    assert one.verdict == verdict
    assert ("loss of malignant sensitivity for melanoma for dark: 0.5" in one.detail) == (
        verdict == "refused"
    )


def test_the_version_that_answers_is_compared(bundle, dark):
    everybody = metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.5})
    own = bundle(dark, metrics(dark={"accuracy": 0.8})).manifest
    running = (bundle(metrics=everybody).manifest, own)
    after = bundle(metrics=everybody, seed=1).manifest
    gate = NonInferiorityGate(delta=0.02)
    assert gate.judge(Case((after, own), running=running)).verdict == "passed"
    one = gate.judge(Case((after,), running=running))
    assert (one.verdict, "0.800 -> 0.500" in one.detail) == ("refused", True)


@pytest.mark.parametrize(
    ("running", "parts", "verdict", "why"),
    [
        (False, {}, "not applicable", "no release runs"),
        (False, {"unreadable": "object is missing"}, "refused", "nothing compares: object is missing"),
        (True, {}, "refused", "answers MEL, NV, AK and this one would answer MEL, NV"),
    ],
)
def test_where_nothing_compares_the_gate_says_why(bundle, running, parts, verdict, why):
    before = (bundle(metrics=LIGHT).manifest,) if running else ()
    after = bundle(metrics=LIGHT, codes=("MEL", "NV")).manifest
    one = NonInferiorityGate(delta=1).judge(Case((after,), running=before, **parts))
    assert (one.verdict, why in one.detail) == (verdict, True)


def test_a_subgroup_that_had_no_metric_before_cannot_lose_and_one_that_has_none_now_does(judge):
    both = metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.7})
    one = judge(LIGHT, both)
    (new,) = [f for f in one.findings if f.subgroup == "dark" and f.measure == "loss of accuracy"]
    assert (one.verdict, new.verdict) == ("passed", "not applicable")
    one = judge(both, LIGHT)
    assert (one.verdict, one.untested) == ("refused", ("dark",))
    assert "0.700 under the running release, and never tested now" in one.detail


@pytest.fixture
def releases(bundle, told):
    """The one that runs, and one that would take its place: as its test has it."""

    def make(now):
        old = bundle(metrics=told(WHERE, light=0.9, dark=(0.9, 0.8, 0.95))).manifest
        new = bundle(metrics=told(WHERE, light=0.9, dark=now)).manifest
        return (old,), (new,)

    return make


def judged(running, now, **known):
    return OutcomesGate().judge(Case(now, running=running, **known))


def known(low, high, subgroup="dark"):
    return {"global": (SubgroupOutcomes(subgroup, 50, (low, high)),)}


def test_a_test_that_shows_less_than_outcomes_of_the_running_release_is_refused(releases):
    running, now = releases((0.7, 0.6, 0.8))
    found = judged(running, now, running_outcomes=known(0.85, 0.95))
    assert found.verdict == "refused"
    assert "sensitivity of dark is at most 0.800 by its test" in found.detail
    assert "running release at least 0.850 by outcomes" in found.detail
    assert judged(running, now, running_outcomes=known(0.85, 0.95, "light")).verdict != "refused"
    running, now = releases((0.7, 0.6, 0.9))
    assert judged(running, now, running_outcomes=known(0.85, 0.95)).verdict == "passed"
    assert judged(running, running, running_outcomes=known(0.99, 1.0)).verdict == "not applicable"


def test_outcomes_count_before_the_test(releases):
    running, now = releases((0.9, 0.85, 0.95))
    worse = {"running_outcomes": known(0.85, 0.95), "outcomes": known(0.5, 0.7)}
    assert judged(running, now, **worse).verdict == "refused"


@pytest.fixture
def demo(registry, bundle, releases):
    """What the database of outcomes says of versions 1 and 2."""
    registry.add([bundle(model="demo")])
    running, now = releases((0.9, 0.85, 0.95))
    manifests = {1: running[0], 2: now[0]}
    return lambda: outcomes_by_version(registry._engine, "demo", manifests, manifests.get)


@pytest.mark.sqlite
@pytest.mark.parametrize("url", [None, "sqlite:///{}/nothing.db", "mysql://nowhere"])
def test_where_no_outcomes_can_be_read_it_refuses(monkeypatch, tmp_path, registry, demo, url):
    monkeypatch.delenv(OUTCOMES, raising=False)
    if url:
        monkeypatch.setenv(OUTCOMES, url.format(tmp_path))
    with pytest.raises((DatabaseError, InvalidName)) as unread:
        demo()
    registry.set_gates(GateSet(gates=(OutcomesGate(),)), reason="of others nothing is asked here")
    registry.promote("demo", [1], to="production", override_gates=True, reason="there are no outcomes yet")
    (result,) = registry.judge_again("demo", alias="production").results
    assert (result.verdict, str(unread.value) in result.detail) == ("refused", True)
    assert not (tmp_path / "nothing.db").exists()


@pytest.mark.sqlite
def test_it_is_shown_what_the_database_holds(monkeypatch, tmp_path, demo):
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    monkeypatch.setenv(OUTCOMES, url)
    answers = [
        kept_answer(day, malignancy=0.1 + 0.8 * (day % 2), answering=of_version(1)) for day in range(60)
    ]
    with OutcomeStore.open(url) as store:
        store.record(answers)
        store.give([Outcome(one.id, "MEL", "follow-up", FIRST) for one in answers], "k1", FIRST)
    found = demo()
    ((dark,), new) = found[1], found[2]
    assert new == ()
    assert (dark.subgroup, dark.malignant) == ("dark", 60)
    assert dark.sensitivity[0] < 0.5 < dark.sensitivity[1]
    (broken,) = dark.broken
    assert broken.startswith("sensitivity of 0.80 or more, since 2026-")
