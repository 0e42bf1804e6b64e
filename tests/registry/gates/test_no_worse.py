import pytest

from registry.gates import Case
from registry.gates.non_inferiority import NoWorseGate


def metrics(**subgroups):
    return {"by_subgroup": {name: {"n": 50, **figures} for name, figures in subgroups.items()}}


@pytest.fixture
def judge(bundle):
    def make(before, after, delta=0.02, **options):
        running = (bundle(metrics=before).manifest,)
        case = Case((bundle(metrics=after, seed=1).manifest,), running=running)
        return NoWorseGate(delta=delta, **options).judge(case)

    return make


def test_balanced_accuracy_counts_too_unless_only_accuracy_is_asked(judge):
    before = metrics(light={"accuracy": 0.8, "balanced_accuracy": 0.7})
    after = metrics(light={"accuracy": 0.9, "balanced_accuracy": 0.6})
    one = judge(before, after)
    assert one.verdict == "refused"
    assert "balanced accuracy for light goes 0.700 -> 0.600, a loss of 0.100 (no interval)" in one.detail
    assert judge(before, after, figures=("accuracy",)).verdict == "passed"


def test_the_version_that_answers_is_compared(bundle, dark):
    everybody = metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.5})
    own = bundle(dark, metrics(dark={"accuracy": 0.8})).manifest
    running = (bundle(metrics=everybody).manifest, own)
    after = bundle(metrics=everybody, seed=1).manifest
    assert NoWorseGate(delta=0.02).judge(Case((after, own), running=running)).verdict == "passed"
    one = NoWorseGate(delta=0.02).judge(Case((after,), running=running))
    assert one.verdict == "refused"
    assert "accuracy for dark goes 0.800 -> 0.500" in one.detail


def test_nothing_gets_worse_where_nothing_runs(bundle, tested):
    one = NoWorseGate(delta=0).judge(Case((bundle(metrics=tested(light=0.1)).manifest,)))
    assert one.verdict == "not applicable"
    assert "no release runs" in one.detail


def test_a_subgroup_that_had_no_figure_before_cannot_lose(judge):
    one = judge(metrics(light={"accuracy": 0.9}), metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.1}))
    assert one.verdict == "passed"
    (new,) = [f for f in one.findings if f.subgroup == "dark" and f.measure == "loss of accuracy"]
    assert (new.verdict, new.note) == ("not applicable", "no figure under the running release")
    assert judge({}, metrics(light={"accuracy": 0.9})).verdict == "not applicable"


def test_a_figure_that_is_gone_is_a_refusal(judge):
    one = judge(metrics(light={"accuracy": 0.9}, dark={"accuracy": 0.7}), metrics(light={"accuracy": 0.9}))
    assert (one.verdict, one.untested) == ("refused", ("dark",))
    assert "accuracy for dark is 0.700 under the running release, and never tested now" in one.detail


def test_figures_of_other_labels_do_not_compare(bundle, tested):
    running = (bundle(metrics=tested(light=0.5)).manifest,)
    after = bundle(metrics=tested(light=0.9), codes=("MEL", "NV")).manifest
    one = NoWorseGate(delta=1).judge(Case((after,), running=running))
    assert one.verdict == "refused"
    assert "answers MEL, NV, AK and this one would answer MEL, NV" in one.detail


@pytest.mark.parametrize("figure", ["malignant_sensitivity", "sensitivity_at_threshold"])
def test_what_is_found_of_malignant_lesions_counts_where_no_figures_are_named(judge, figure):
    one = judge(
        metrics(dark={"accuracy": 0.7, figure: 18 / 21}), metrics(dark={"accuracy": 0.8, figure: 7 / 21})
    )
    assert one.verdict == "refused"
    assert "for dark goes 0.857 -> 0.333, a loss of 0.524" in one.detail
    assert judge(metrics(dark={figure: 0.9}), metrics(dark={figure: None})).untested == ("dark",)
