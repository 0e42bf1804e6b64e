"""The gates `spread` and `parity`."""

import math

import pytest

from registry.gate_report import SubgroupFigure
from registry.gates import Case, SpreadGate
from registry.gates.fairness import ParityGate, spread_interval
from tests.registry.gates.conftest import CANCER


def judge(manifests, limit=0.10):
    return SpreadGate(limit=limit).judge(Case(tuple(manifests)))


def test_a_subgroup_counts_with_the_version_that_answers_for_it(manifests, tested, tones):
    everybody = tested(light=0.90, dark=0.60, medium=0.85)
    assert judge(manifests(everybody)).value == pytest.approx(0.30)
    own = {"dark": (tones("dark", "5"), tested(dark=0.82, light=0.10))}
    result = judge(manifests(everybody, **own))
    assert (result.verdict, result.value) == ("passed", pytest.approx(0.08))
    assert (result.best.subgroup, result.best.value, result.best.n) == ("light", 0.90, 200)
    assert (result.worst.subgroup, result.worst.value, result.worst.n) == ("dark", 0.82, 200)
    assert judge(
        manifests(tested(light=0.85, dark=0.80), dark=(own["dark"][0], tested(dark=0.70)))
    ).verdict == ("refused")


@pytest.mark.parametrize(
    ("best", "worst", "verdict"),
    [(0.8, 0.7, "passed"), (0.9, 0.8, "passed"), (0.8, 0.699, "refused"), (0.5, 0.5, "passed")],
)
def test_the_limit_itself_passes(manifests, tested, best, worst, verdict):
    # 0.8 - 0.7 is 0.10000000000000009 in floating point.
    assert judge(manifests(tested(light=best, dark=worst))).verdict == verdict


def test_the_interval_is_the_one_of_zou_and_donner(manifests, tested):
    result = judge(manifests(tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))))
    # d = 0.2; low = 0.2 - sqrt(0.06^2 + 0.12^2), high = 0.2 + sqrt(0.04^2 + 0.15^2), by hand.
    assert result.interval == pytest.approx((0.0658359, 0.3552417), abs=1e-6)
    assert "95 % interval 0.066 to 0.355" in result.detail
    assert result.verdict == "refused"


def test_the_printed_example_of_newcombe_is_met():
    """56/70 - 48/80 with Wilson's intervals: 0.0524 to 0.3339 (Newcombe 1998, Stat. Med. 17, method 10)."""

    def wilson(successes, n, z=1.959964):
        p = successes / n
        centre, half = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        return (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)

    best = SubgroupFigure(subgroup="a", value=56 / 70, n=70, interval=wilson(56, 70))
    worst = SubgroupFigure(subgroup="b", value=48 / 80, n=80, interval=wilson(48, 80))
    assert spread_interval(best, worst) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_is_never_negative_and_the_verdict_goes_by_the_point(manifests, tested):
    result = judge(manifests(tested(light=(0.8, 0.5, 1.0), dark=(0.75, 0.4, 0.95))))
    assert (result.interval[0], result.verdict) == (0, "passed")
    assert result.interval[1] > 0.10
    assert judge(manifests(tested(light=0.9, dark=(0.85, 0.8, 0.9)))).interval is None


def test_a_subgroup_that_was_never_tested_is_refused(manifests, tested, tones):
    own = {"dark": (tones("dark", "5"), tested(light=0.9)), "third": (tones("third", "6"), {})}
    result = judge(manifests(tested(light=0.9, dark=0.9), **own))
    assert (result.verdict, result.untested, result.value) == ("refused", ("dark", "third"), None)
    result = judge(manifests({}))
    assert (result.verdict, result.untested) == ("refused", ("global",))


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"n": 9}, "none"),
        ({"by_subgroup": {}}, "none"),
        ({"by_subgroup": {"light": {"n": 9, "accuracy": 1.0}}}, "only light"),
    ],
)
def test_with_fewer_than_two_subgroups_the_gate_does_not_apply_and_says_so(manifests, metrics, named):
    result = judge(manifests(metrics))
    assert result.verdict == "not applicable"
    assert result.detail.endswith(f"the test metrics name {named}")


def test_groups_without_malignant_images_are_equal_only_in_accuracy(bundle, found):
    for n, said in ((60, False), (0, True)):
        metrics = found(light=(0.9, 60), dark=(0.9, n))
        for row in metrics["by_subgroup"].values():
            row |= {"n": 120, "n_other": 120 - row["n_malignant"], "accuracy": 0.8}
        result = judge([bundle(metrics=metrics, labels=CANCER).manifest])
        assert result.verdict == "passed"
        assert ("no malignant image of dark was tested" in result.detail) is said


@pytest.mark.parametrize(
    ("parities", "verdict"),
    [((1e-5, 0.001), "passed"), ((0.0, 0.0), "passed"), ((0.0011, 0.0), "refused"), ((0.0, None), "refused")],
)
def test_every_version_must_answer_as_torch_does(bundle, dark, parities, verdict):
    case = Case((bundle(parity=parities[0]).manifest, bundle(dark, parity=parities[1]).manifest))
    one = ParityGate(limit=0.001).judge(case)
    assert (one.verdict, [finding.value for finding in one.findings]) == (verdict, list(parities))
    if None in parities:
        assert "for dark: the bundle does not say how far they differ" in one.detail
        assert one.untested == ("dark",)
