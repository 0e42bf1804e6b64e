import pytest

from registry.bundle.manifest import Conformal
from registry.gates import Case
from registry.gates.coverage import CoverageGate

PROMISE = Conformal(alpha=0.1, threshold_bin=20, n=100, guarantee="global")


def test_each_subgroup_is_held_against_the_promise_of_its_version(bundle, told, dark):
    everybody = bundle(metrics=told("coverage", light=0.86, dark=0.5), conformal=PROMISE).manifest
    own = Conformal(alpha=0.2, threshold_bin=20, n=50, guarantee="subgroup")
    for value, verdict in ((0.75, "passed"), (0.749, "refused")):
        mine = bundle(dark, told("coverage", dark=value), conformal=own).manifest
        result = CoverageGate(slack=0.05).judge(Case((everybody, mine)))
        assert result.verdict == verdict
        assert {one.subgroup: one.limit for one in result.findings} == pytest.approx(
            {"light": 0.85, "dark": 0.75}
        )
        assert result.worst.subgroup == "dark"  # light lies 0.01 above its limit


def test_the_promise_is_asked_for_in_every_subgroup(bundle, told):
    metrics = told("coverage", light=0.95, dark=(0.80, 0.70, 0.88))
    result = CoverageGate(slack=0.05).judge(Case((bundle(metrics=metrics, conformal=PROMISE).manifest,)))
    assert result.verdict == "refused"
    assert "0.800 for dark (n 50, 95 % interval 0.700 to 0.880) (asked for: 0.850)" in result.detail
    assert (result.value, result.interval) == (0.80, (0.70, 0.88))


def test_full_sets_promise_nothing_and_need_nothing(bundle, told):
    result = CoverageGate(slack=0).judge(Case((bundle(metrics=told("coverage", light=0.1)).manifest,)))
    assert result.verdict == "not applicable"
    assert "prediction sets are full" in result.detail
    assert result.value is None


def test_a_promise_that_was_never_tested_is_refused(bundle, tested):
    """As of bundles that were made before bundles told their coverage."""
    for metrics, name in ((tested(light=0.9), "light"), ({}, "global")):
        result = CoverageGate(slack=1).judge(Case((bundle(metrics=metrics, conformal=PROMISE).manifest,)))
        assert (result.verdict, result.untested) == ("refused", (name,))
        assert f"subgroup {name} was never tested" in result.detail


def test_one_that_promises_and_one_that_does_not(bundle, told, dark):
    everybody = bundle(metrics=told("coverage", light=0.9, dark=0.9), conformal=PROMISE).manifest
    result = CoverageGate(slack=0).judge(Case((everybody, bundle(dark, told("coverage", dark=1.0)).manifest)))
    assert result.verdict == "passed"
    assert {one.subgroup: one.verdict for one in result.findings} == {
        "dark": "not applicable",
        "light": "passed",
    }


def test_where_the_test_names_no_subgroup_all_its_pictures_are_judged(bundle):
    for value, verdict in ((0.85, "passed"), (0.84, "refused")):
        manifest = bundle(metrics={"n": 40, "coverage": value}, conformal=PROMISE).manifest
        assert CoverageGate(slack=0.05).judge(Case((manifest,))).verdict == verdict
