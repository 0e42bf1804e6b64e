"""Numbers against limits: the gates of one metric, `count`, `coverage`, `risk` and `parity`."""

import pytest

from registry.bundle.conclusions import Conclusions
from registry.bundle.labels import Label
from registry.bundle.manifest import Conformal
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.score_bins import SCORE_BINS
from registry.gates import Case
from registry.gates.threshold import (
    THRESHOLD_GATES,
    CountGate,
    CoverageGate,
    MinAnswerRateGate,
    MinSensitivityLowerBoundGate,
    ParityGate,
    RiskGate,
    ThresholdGate,
    WorstMalignantSensitivityGate,
)
from tests.measured import of_kind
from tests.registry.gates.conftest import CANCER, PROMISE

PLAIN = [
    one
    for one in THRESHOLD_GATES
    if issubclass(one, ThresholdGate) and one is not MinSensitivityLowerBoundGate
]


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
    found = [(one.subgroup, one.value) for one in result.findings]
    assert (result.verdict, found) == ("passed", [("dark", 0.55), ("light", 0.6), ("medium", 0.5)])
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
    assert judge(gate(limit=0.5), bundle(metrics={}, labels=CANCER)).untested == ("global",)


def test_images_are_counted_of_the_version_that_answers(bundle, told, dark):
    everybody = bundle(metrics=told("accuracy", 100, light=0.9, dark=0.9))
    own = bundle(dark, told("accuracy", 29, dark=0.9))
    assert judge(CountGate(minimum=100), everybody).verdict == "passed"
    result = judge(CountGate(minimum=30), everybody, own)
    assert (result.verdict, result.value, result.untested) == ("refused", 29, ())
    assert "test images for dark: 29, where at least 30 passes" in result.detail
    assert judge(CountGate(minimum=29), everybody, own).verdict == "passed"


def test_a_subgroup_of_which_the_test_had_no_image_counts_as_none(bundle, told):
    metrics = {**told("accuracy", 40, light=0.9), "absent": ["dark", "global", "undeclared"]}
    result = judge(CountGate(minimum=1), bundle(metrics=metrics))
    assert (result.verdict, result.value, result.untested) == ("refused", 0, ("dark",))
    assert [(one.subgroup, one.note) for one in result.findings] == [("light", ""), ("dark", "never tested")]
    for metrics, verdict in (({"n": 9}, "passed"), ({"n": 8}, "refused"), ({}, "refused")):
        assert judge(CountGate(minimum=9), bundle(metrics=metrics)).verdict == verdict
    absent = judge(CountGate(minimum=9), bundle(metrics={"n": 9, "absent": ["dark"]}))
    assert [one.subgroup for one in absent.findings] == ["dark"]


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
    [(19, 20, "passed"), (18, 20, "refused"), (51, 60, "refused"), (57, 60, "passed"), (9, 9, "refused")],
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
    measure = "lower end of malignant sensitivity at the working point"
    assert (one.verdict, one.findings[0].measure) == ("passed", measure)
    assert lower_bound(bundle, dark=row(30, 60, at_point, malignant_sensitivity=0.95)).verdict == "refused"


THREE = (
    Label(code="MEL", name="melanoma", malignancy="malignant"),
    Label(code="BCC", name="basal", malignancy="malignant"),
    Label(code="SCC", name="squamous", malignancy="malignant"),
    Label(code="NV", name="naevus", malignancy="benign"),
)


def of_kinds(bundle, dark, everybody=None):
    rows = {"dark": row(190, 200, by_kind=dark)}
    metrics = {**row(190, 200, by_kind=everybody or {}), "by_subgroup": rows}
    result = judge(MinSensitivityLowerBoundGate(limit=0.75), bundle(metrics=metrics, labels=THREE))
    return result, {(one.subgroup, one.measure.rpartition(" ")[2]): one for one in result.findings}


@pytest.mark.parametrize(
    ("melanoma", "verdict", "note"),
    [
        ({"n": 28, "found": 20}, "refused", "0.714, 20 of 28 found"),
        ({"n": 28, "found": 28, "suspicious": 20}, "refused", "at the working point 0.714, 20 of 28 found"),
        ({"n": 28, "found": 20, "suspicious": 28}, "passed", "at the working point 1.000, 28 of 28 found"),
        ({"n": 13, "found": 13}, "passed", "1.000, 13 of 13 found"),
        ({"n": 12, "found": 12}, "not applicable", "melanoma: 12 images, too few to tell"),
        ({"n": 12, "found": 1}, "refused", "0.083, 1 of 12 found"),
        (None, "not applicable", "melanoma: too few to tell"),
    ],
)
def test_the_worst_kind_of_malignancy_is_judged(bundle, melanoma, verdict, note):
    """Basal cell carcinomas, all of them found, hide no melanoma."""
    kinds = {"basal": of_kind(160, found=160), "squamous": of_kind(40, found=39)}
    if melanoma is not None:
        kinds["melanoma"] = of_kind(**melanoma)
    result, found = of_kinds(bundle, kinds)
    assert (found["dark", "melanoma"].verdict, found["dark", "melanoma"].note) == (verdict, note)
    assert result.verdict == ("refused" if verdict == "refused" else "passed")
    if verdict == "refused":
        assert "lower end of sensitivity for melanoma for dark: " in result.detail
        assert (result.worst, result.value) == (None, found["dark", "melanoma"].value)


def test_a_kind_that_is_missed_over_all_is_refused(bundle):
    result, found = of_kinds(bundle, {}, {"melanoma": of_kind(90, found=50)})
    assert (result.verdict, found["global", "melanoma"].verdict) == ("refused", "refused")
    assert [key for key, one in found.items() if one.verdict == "not applicable"] == [
        *(("dark", kind) for kind in ("melanoma", "basal", "squamous")),
        *(("global", kind) for kind in ("basal", "squamous")),
    ]


def test_a_weak_subgroup_and_one_with_few_images_get_different_advice(bundle):
    one = lower_bound(bundle, light=row(190, 200), dark=row(18, 21), medium=row(60, 120))
    assert "Test on more malignant images of dark; improve the model for medium, or override" in one.detail
    assert one.value == pytest.approx(clopper_pearson(60, 120)[0])


def test_malignant_images_that_are_missing_or_were_never_counted_are_refused(bundle):
    one = lower_bound(bundle, 0.0, light=row(0, 0), dark=row(9, 10, n_malignant=None), medium=None)
    assert (one.verdict, one.untested) == ("refused", ("dark", "light", "medium"))
    notes = ["malignant test images were never counted", "no malignant test images", "never tested"]
    assert [finding.note for finding in one.findings] == notes
    for metrics, told in (({}, ["global"]), ({"n": 9, "by_subgroup": {"dark": {}}}, ["dark"])):
        untested = judge(MinSensitivityLowerBoundGate(limit=0), bundle(metrics=metrics, labels=THREE))
        assert [each.subgroup for each in untested.findings] == [*told, *["global"] * 3]


def test_the_sensitivity_of_the_version_that_answers_is_judged(bundle, dark):
    rows = {"light": row(190, 200), "dark": row(3, 60)}
    everybody = bundle(metrics={"n": 100, "by_subgroup": rows}, labels=CANCER)
    own = bundle(dark, {"n": 100, "by_subgroup": {"dark": row(58, 60)}}, labels=CANCER)
    gate = MinSensitivityLowerBoundGate(limit=0.75)
    assert (judge(gate, everybody).verdict, judge(gate, everybody, own).verdict) == ("refused", "passed")


def test_where_no_label_is_malignant_there_is_nothing_to_find(bundle):
    for gate in (WorstMalignantSensitivityGate(limit=1), MinSensitivityLowerBoundGate(limit=1)):
        result = judge(gate, bundle(metrics={}))
        assert (result.verdict, result.detail) == ("not applicable", "no label of the model is malignant")


def test_each_subgroup_is_compared_with_the_guarantee_of_its_version(bundle, told, dark):
    everybody = bundle(metrics=told("coverage", light=0.86, dark=0.5), conformal=PROMISE)
    own = Conformal(alpha=0.2, threshold_bin=20, n=50, guarantee="subgroup")
    for value, verdict in ((0.75, "passed"), (0.749, "refused")):
        mine = bundle(dark, told("coverage", dark=value), conformal=own)
        result = judge(CoverageGate(slack=0.05), everybody, mine)
        limits = {one.subgroup: one.limit for one in result.findings}
        assert (result.verdict, limits) == (verdict, pytest.approx({"light": 0.85, "dark": 0.75}))
        assert result.worst.subgroup == "dark"  # light lies 0.01 above its limit
    full = judge(CoverageGate(slack=0), everybody, bundle(dark, told("coverage", dark=1.0)))
    verdicts = {one.subgroup: one.verdict for one in full.findings}
    assert verdicts == {"dark": "not applicable", "light": "refused"}


def test_full_sets_guarantee_nothing_and_a_guarantee_must_be_tested(bundle, told, tested):
    result = judge(CoverageGate(slack=0), bundle(metrics=told("coverage", light=0.1)))
    assert (result.verdict, result.value) == ("not applicable", None)
    assert result.detail == "no coverage is guaranteed; the prediction sets are full"
    for metrics, name in ((tested(light=0.9), "light"), ({}, "global")):
        result = judge(CoverageGate(slack=1), bundle(metrics=metrics, conformal=PROMISE))
        assert (result.verdict, result.untested) == ("refused", (name,))


@pytest.mark.parametrize(
    ("value", "interval", "target", "verdict"),
    [
        (0.15, [0.09, 0.25], 0.1, "passed"),  # it may be chance
        (0.17, [0.118, 0.238], 0.1, "refused"),
        (0.17, [0.118, 0.238], 0.2, "passed"),
        (0.11, None, 0.1, "refused"),
        (0.1, None, 0.1, "passed"),
        (None, None, 0.1, "refused"),
    ],
)
def test_a_risk_is_refused_where_its_target_is_missed_for_certain(bundle, value, interval, target, verdict):
    intervals = {"reported_risk": interval} if interval else {}
    row = {"n": 120, "reported": 0.6, "reported_risk": value, "intervals": intervals}
    given = bundle(metrics={"by_subgroup": {"dark": row}}, conclusions=Conclusions(target_risk=target))
    assert judge(RiskGate(), given).verdict == verdict


def test_there_is_no_risk_where_no_image_is_answered(bundle):
    row = {"n": 120, "reported": 0.0, "reported_risk": None}
    one = judge(RiskGate(), bundle(metrics={"by_subgroup": {"dark": row}}))
    assert (one.verdict, one.findings[0].note) == ("not applicable", "nothing is concluded of any image")


@pytest.mark.parametrize(
    ("parities", "verdict"), [((1e-5, 0.001), "passed"), ((0.0011, 0.0), "refused"), ((0.0, None), "refused")]
)
def test_every_version_must_answer_as_torch_does(bundle, dark, parities, verdict):
    one = judge(ParityGate(limit=0.001), bundle(parity=parities[0]), bundle(dark, parity=parities[1]))
    assert (one.verdict, [finding.value for finding in one.findings]) == (verdict, list(parities))
    assert one.untested == (("dark",) if None in parities else ())


@pytest.mark.parametrize(("own", "answered", "verdict"), [(False, 0.2, "refused"), (True, 0.7, "passed")])
def test_what_is_ruled_out_for_no_declared_tone_is_no_answer(bundle, dark, own, answered, verdict):
    """Of 50 images 25 are ruled out and 10 more answered: the global version answers those 10."""
    row = {"n": 50, "n_malignant": 20, "n_other": 30, "answered": 0.7}
    row |= {"ruled_out_malignant": 1 / 20, "ruled_out_other": 24 / 30}
    none = (0,) * SCORE_BINS
    histograms = {"confidence": none, "scores": (none, none)}
    tested = {**histograms, "by_subgroup": [{**histograms, "subgroup": dark}]}
    everybody = bundle(metrics={"by_subgroup": {"dark": row}}, labels=CANCER, reference=tested)
    made = [everybody, *([bundle(dark, {"by_subgroup": {"dark": row}}, labels=CANCER)] if own else [])]
    (found,) = judge(MinAnswerRateGate(limit=0.5), *made).findings
    assert (found.value, found.verdict) == (pytest.approx(answered), verdict)
    assert found.interval is None or found.interval == pytest.approx(clopper_pearson(10, 50))
