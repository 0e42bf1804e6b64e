import pytest

from registry.gates import Case
from registry.gates.non_inferiority import NonInferiorityGate


def metrics(**subgroups):
    return {"by_subgroup": {name: {"n": 50, **row} for name, row in subgroups.items()}}


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


def test_every_metric_counts_unless_some_are_named(judge):
    before = metrics(light={"accuracy": 0.8, "balanced_accuracy": 0.7})
    after = metrics(light={"accuracy": 0.9, "balanced_accuracy": 0.6})
    one = judge(before, after)
    assert one.verdict == "refused"
    assert (
        "loss of balanced accuracy for light: 0.100 (n 50, 0.700 -> 0.600), where at most 0.020" in one.detail
    )
    assert judge(before, after, metrics=("accuracy",)).verdict == "passed"
    for metric in ("malignant_sensitivity", "sensitivity_at_threshold"):
        before = metrics(dark={"accuracy": 0.7, metric: 18 / 21})
        one = judge(before, metrics(dark={"accuracy": 0.8, metric: 7 / 21}))
        assert one.verdict == "refused"
        assert "for dark: 0.524 (n 50, 0.857 -> 0.333)" in one.detail
        assert judge(before, metrics(dark={"accuracy": 0.8, metric: None})).untested == ("dark",)


def test_the_version_that_answers_is_compared(bundle, dark):
    everybody = metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.5})
    own = bundle(dark, metrics(dark={"accuracy": 0.8})).manifest
    running = (bundle(metrics=everybody).manifest, own)
    after = bundle(metrics=everybody, seed=1).manifest
    gate = NonInferiorityGate(delta=0.02)
    assert gate.judge(Case((after, own), running=running)).verdict == "passed"
    one = gate.judge(Case((after,), running=running))
    assert one.verdict == "refused"
    assert "0.800 -> 0.500" in one.detail


def test_nothing_gets_worse_where_nothing_runs(bundle, tested):
    one = NonInferiorityGate(delta=0).judge(Case((bundle(metrics=tested(light=0.1)).manifest,)))
    assert one.verdict == "not applicable"
    assert "no release runs" in one.detail


def test_a_subgroup_that_had_no_metric_before_cannot_lose(judge):
    one = judge(metrics(light={"accuracy": 0.9}), metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.1}))
    assert one.verdict == "passed"
    (new,) = [f for f in one.findings if f.subgroup == "dark" and f.measure == "loss of accuracy"]
    assert (new.verdict, new.note) == ("not applicable", "no metric under the running release")
    assert judge({}, metrics(light={"accuracy": 0.9})).verdict == "not applicable"


def test_a_metric_that_is_gone_is_a_refusal(judge):
    one = judge(metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.7}), metrics(light={"accuracy": 0.9}))
    assert (one.verdict, one.untested) == ("refused", ("dark",))
    assert "0.700 under the running release, and never tested now" in one.detail


def test_metrics_of_other_labels_do_not_compare(bundle, tested):
    running = (bundle(metrics=tested(light=0.5)).manifest,)
    after = bundle(metrics=tested(light=0.9), codes=("MEL", "NV")).manifest
    one = NonInferiorityGate(delta=1).judge(Case((after,), running=running))
    assert one.verdict == "refused"
    assert "answers MEL, NV, AK and this one would answer MEL, NV" in one.detail


def test_a_running_release_that_cannot_be_read_is_a_refusal(bundle):
    one = NonInferiorityGate(delta=1).judge(Case((bundle().manifest,), unreadable="object is missing"))
    assert one.verdict == "refused"
    assert "nothing compares: object is missing. Repair it" in one.detail
