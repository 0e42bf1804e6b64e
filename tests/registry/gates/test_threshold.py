"""The gates that compare one metric of every subgroup with a limit, and `count`."""

import pytest

from registry.bundle.metrics.intervals import clopper_pearson
from registry.gates import Case
from registry.gates.threshold import (
    THRESHOLD_GATES,
    CountGate,
    MinSensitivityLowerBoundGate,
    ThresholdGate,
    WorstMalignantSensitivityGate,
)
from tests.registry.gates.conftest import CANCER

PLAIN = [one for one in THRESHOLD_GATES if one not in (CountGate, MinSensitivityLowerBoundGate)]


def judge(gate, *bundles):
    return gate.judge(Case(tuple(one.manifest for one in bundles)))


@pytest.fixture(params=PLAIN, ids=lambda gate: gate.model_fields["name"].default)
def gate(request) -> type[ThresholdGate]:
    """Each gate with one plain metric."""
    return request.param


def test_the_worst_of_the_versions_that_answer_is_reported(bundle, told, dark, gate):
    everybody = bundle(metrics=told(gate.metric, light=0.6, dark=0.1, medium=0.5), labels=CANCER)
    own = bundle(dark, told(gate.metric, dark=0.55, light=0.0), labels=CANCER)
    result = judge(gate(limit=0.5 if gate.bound == "at least" else 0.6), everybody, own)
    assert result.verdict == "passed"
    assert [(one.subgroup, one.value) for one in result.findings] == [
        ("dark", 0.55), ("light", 0.6), ("medium", 0.5),
    ]  # fmt: skip
    assert result.worst.subgroup == ("medium" if gate.bound == "at least" else "light")
    assert (result.value, result.limit) == (result.worst.value, result.worst.value)


def test_a_subgroup_without_the_metric_was_never_tested(bundle, told, gate):
    result = judge(gate(limit=0.5), bundle(metrics=told(gate.metric, light=0.5, dark=None), labels=CANCER))
    assert (result.verdict, result.untested) == ("refused", ("dark",))
    assert f"{gate.measure} for dark: never tested. Test on images of dark, or override" in result.detail
    assert result.worst.subgroup == "light"


def test_where_the_test_names_no_subgroup_all_its_images_are_judged(bundle, gate):
    for value, verdict in ((0.5, "passed"), (0.9 if gate.bound == "at most" else 0.1, "refused")):
        result = judge(gate(limit=0.5), bundle(metrics={"n": 9, gate.metric: value}, labels=CANCER))
        assert (result.verdict, result.worst.subgroup, result.worst.n) == (verdict, "global", 9)
    result = judge(gate(limit=0.5), bundle(metrics={}, labels=CANCER))
    assert (result.verdict, result.untested) == ("refused", ("global",))


def test_images_are_counted_of_the_version_that_answers(bundle, told, dark):
    everybody = bundle(metrics=told("accuracy", 100, light=0.9, dark=0.9))
    own = bundle(dark, told("accuracy", 29, dark=0.9))
    assert judge(CountGate(minimum=100), everybody).verdict == "passed"
    result = judge(CountGate(minimum=30), everybody, own)
    assert (result.verdict, result.value, result.untested) == ("refused", 29, ())
    assert "test images for dark: 29, where at least 30 passes" in result.detail
    assert judge(CountGate(minimum=29), everybody, own).verdict == "passed"


def test_a_subgroup_of_which_the_test_had_no_image_counts_as_none(bundle, told, dark):
    metrics = {**told("accuracy", 40, light=0.9), "absent": ["dark", "global", "undeclared"]}
    result = judge(CountGate(minimum=1), bundle(metrics=metrics))
    assert (result.verdict, result.value, result.untested) == ("refused", 0, ("dark",))
    assert [(one.subgroup, one.note) for one in result.findings] == [("light", ""), ("dark", "never tested")]
    own = bundle(dark, told("accuracy", 35, dark=0.9))
    assert judge(CountGate(minimum=35), bundle(metrics=metrics), own).verdict == "passed"


@pytest.mark.parametrize("metrics", [{"n": 8}, {}])
def test_without_subgroups_all_images_are_counted(bundle, metrics):
    assert judge(CountGate(minimum=9), bundle(metrics={"n": 9})).verdict == "passed"
    assert judge(CountGate(minimum=9), bundle(metrics=metrics)).verdict == "refused"


def row(found, n, metric="malignant_sensitivity", **parts):
    """One subgroup's sensitivity, with the bundle's own interval."""
    ends = {metric: list(clopper_pearson(found, n))} if n else {}
    share = found / n if n else None
    return {"n": 2 * n or 40, "n_malignant": n, "n_other": n or 40, metric: share, "intervals": ends, **parts}


def lower_bound(bundle, limit=0.75, **rows):
    given = bundle(metrics={"n": 100, "by_subgroup": rows}, labels=CANCER)
    return judge(MinSensitivityLowerBoundGate(limit=limit), given)


@pytest.mark.parametrize(
    ("found", "n", "verdict"),
    [(19, 20, "passed"), (18, 20, "refused"), (51, 60, "refused"), (57, 60, "passed")],
)
def test_the_lower_end_decides(bundle, found, n, verdict):
    one = lower_bound(bundle, dark=row(found, n))
    assert (one.verdict, one.value) == (verdict, pytest.approx(clopper_pearson(found, n)[0]))
    assert one.interval == pytest.approx(clopper_pearson(found, n))


@pytest.mark.parametrize(("ends", "value"), [([0.5, 1.0], 0.5), ([0.94, 0.96], clopper_pearson(57, 60)[0])])
def test_the_lower_end_is_never_above_that_of_as_many_images(bundle, ends, value):
    one = lower_bound(bundle, dark=row(57, 60, intervals={"malignant_sensitivity": ends}))
    assert one.value == pytest.approx(value)


def test_what_a_clinic_acts_on_is_judged(bundle):
    at_point = "sensitivity_at_threshold"
    one = lower_bound(bundle, dark=row(57, 60, at_point, malignant_sensitivity=0.4))
    assert (one.verdict, one.findings[0].measure) == (
        "passed", "lower end of malignant sensitivity at the working point",
    )  # fmt: skip
    assert lower_bound(bundle, dark=row(30, 60, at_point, malignant_sensitivity=0.95)).verdict == "refused"


def test_a_weak_subgroup_and_one_with_few_images_get_different_advice(bundle):
    one = lower_bound(bundle, light=row(190, 200), dark=row(18, 21), medium=row(60, 120))
    assert "Test on more malignant images of dark; improve the model for medium, or override" in one.detail
    assert one.value == pytest.approx(clopper_pearson(60, 120)[0])


def test_malignant_images_that_are_missing_or_were_never_counted_are_refused(bundle):
    one = lower_bound(bundle, 0.0, light=row(0, 0), dark=row(9, 10, n_malignant=None), medium=None)
    assert (one.verdict, one.untested) == ("refused", ("dark", "light", "medium"))
    assert [finding.note for finding in one.findings] == [
        "malignant test images were never counted", "no malignant test images", "never tested",
    ]  # fmt: skip


def test_the_version_that_answers_is_judged(bundle, dark):
    rows = {"light": row(190, 200), "dark": row(3, 60)}
    everybody = bundle(metrics={"n": 100, "by_subgroup": rows}, labels=CANCER)
    own = bundle(dark, {"n": 100, "by_subgroup": {"dark": row(58, 60)}}, labels=CANCER)
    gate = MinSensitivityLowerBoundGate(limit=0.75)
    assert judge(gate, everybody).verdict == "refused"
    assert judge(gate, everybody, own).verdict == "passed"


def test_where_no_label_is_malignant_there_is_nothing_to_find(bundle):
    for gate in (WorstMalignantSensitivityGate(limit=1), MinSensitivityLowerBoundGate(limit=1)):
        result = judge(gate, bundle(metrics={}))
        assert (result.verdict, result.detail) == ("not applicable", "no label of the model is malignant")
