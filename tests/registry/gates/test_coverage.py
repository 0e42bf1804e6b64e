"""The gates `coverage` and `risk`: what each version guarantees."""

import pytest

from registry.bundle.manifest import Abstention, Conformal
from registry.gates import Case
from registry.gates.coverage import CoverageGate, RiskGate
from tests.registry.gates.conftest import PROMISE


def judge(gate, *bundles):
    return gate.judge(Case(tuple(one.manifest for one in bundles)))


def test_each_subgroup_is_compared_with_the_guarantee_of_its_version(bundle, told, dark):
    everybody = bundle(metrics=told("coverage", light=0.86, dark=0.5), conformal=PROMISE)
    own = Conformal(alpha=0.2, threshold_bin=20, n=50, guarantee="subgroup")
    for value, verdict in ((0.75, "passed"), (0.749, "refused")):
        mine = bundle(dark, told("coverage", dark=value), conformal=own)
        result = judge(CoverageGate(slack=0.05), everybody, mine)
        assert result.verdict == verdict
        limits = {one.subgroup: one.limit for one in result.findings}
        assert limits == pytest.approx({"light": 0.85, "dark": 0.75})
        assert result.worst.subgroup == "dark"  # light lies 0.01 above its limit


def test_the_guarantee_is_asked_for_in_every_subgroup(bundle, told):
    metrics = told("coverage", light=0.95, dark=(0.80, 0.70, 0.88))
    result = judge(CoverageGate(slack=0.05), bundle(metrics=metrics, conformal=PROMISE))
    assert result.verdict == "refused"
    assert (
        "coverage for dark: 0.800 (n 50, 95 % interval 0.700 to 0.880), where at least 0.850 passes. "
        "Calibrate again on more images of dark, or override" in result.detail
    )
    assert (result.value, result.interval) == (0.80, (0.70, 0.88))


def test_full_sets_guarantee_nothing_and_need_nothing(bundle, told):
    result = judge(CoverageGate(slack=0), bundle(metrics=told("coverage", light=0.1)))
    assert (result.verdict, result.value) == ("not applicable", None)
    assert result.detail == "no coverage is guaranteed; the prediction sets are full"


def test_a_guarantee_that_was_never_tested_is_refused(bundle, tested):
    for metrics, name in ((tested(light=0.9), "light"), ({}, "global")):
        result = judge(CoverageGate(slack=1), bundle(metrics=metrics, conformal=PROMISE))
        assert (result.verdict, result.untested) == ("refused", (name,))


def test_one_that_guarantees_and_one_that_does_not(bundle, told, dark):
    everybody = bundle(metrics=told("coverage", light=0.9, dark=0.9), conformal=PROMISE)
    result = judge(CoverageGate(slack=0), everybody, bundle(dark, told("coverage", dark=1.0)))
    assert result.verdict == "passed"
    verdicts = {one.subgroup: one.verdict for one in result.findings}
    assert verdicts == {"dark": "not applicable", "light": "passed"}


def test_where_the_test_names_no_subgroup_all_its_images_are_judged(bundle):
    for value, verdict in ((0.85, "passed"), (0.84, "refused")):
        manifest = bundle(metrics={"n": 40, "coverage": value}, conformal=PROMISE)
        assert judge(CoverageGate(slack=0.05), manifest).verdict == verdict


@pytest.mark.parametrize(
    ("value", "interval", "target", "verdict"),
    [
        (0.15, [0.09, 0.25], 0.1, "passed"),  # it may be chance
        (0.17, [0.118, 0.238], 0.1, "refused"),
        (0.17, [0.118, 0.238], 0.2, "passed"),
        (0.05, [0.0, 0.1], 0.0, "passed"),
        (0.11, None, 0.1, "refused"),
        (0.1, None, 0.1, "passed"),
        (None, None, 0.1, "refused"),
    ],
)
def test_a_risk_is_refused_where_its_target_is_missed_for_certain(bundle, value, interval, target, verdict):
    intervals = {"reported_risk": interval} if interval else {}
    row = {"n": 120, "reported": 0.6, "reported_risk": value, "intervals": intervals}
    given = bundle(metrics={"by_subgroup": {"dark": row}}, abstention=Abstention(target_risk=target))
    assert judge(RiskGate(), given).verdict == verdict


def test_there_is_no_risk_where_no_image_is_answered(bundle):
    row = {"n": 120, "reported": 0.0, "reported_risk": None}
    one = judge(RiskGate(), bundle(metrics={"by_subgroup": {"dark": row}}))
    assert (one.verdict, one.findings[0].note) == ("not applicable", "no image is answered")
