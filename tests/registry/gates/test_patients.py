"""What a patient is protected by where nobody has set gates, and the gates that do it."""

import pytest

from registry.bundle.labels import Label, Subgroup, TonePatients
from registry.bundle.manifest import Abstention
from registry.bundle.metrics.intervals import clopper_pearson
from registry.gate_report import GateReport
from registry.gates import DEFAULT, Case
from registry.gates.required_subgroups import RequiredSubgroupsGate, TonesGate
from registry.gates.threshold import RiskGate, ShownSensitivityGate

CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
TONES = {"light": 200, "medium": 120, "dark": 60}
GOOD = 0.95


def row(found, n_malignant, figure="malignant_sensitivity", **beside):
    """One subgroup's test figures, with as many others as malignant ones."""
    share = found / n_malignant if n_malignant else None
    known = {} if share is None else {figure: list(clopper_pearson(found, n_malignant))}
    figures = {
        "n": 2 * n_malignant or 40, "n_malignant": n_malignant, "n_other": n_malignant or 40, figure: share,
        "accuracy": 0.8, "balanced_accuracy": 0.8, "malignant_sensitivity": share,
        "malignant_specificity": 0.7, "reported": 0.6, "reported_risk": 0.08, "intervals": known,
    }  # fmt: skip
    return {**figures, **beside}


def release(bundle, **rows):
    """The manifests of a release of one version for everybody."""
    return (bundle(metrics={"n": 100, "by_subgroup": rows}, labels=CANCER).manifest,)


def good(**instead):
    rows = {name: row(round(GOOD * n), n) for name, n in TONES.items()}
    return rows | instead


def judged(gates, manifests, running=()):
    report = GateReport(results=gates.judge(Case(manifests, running=running)))
    return {one.gate: one for one in report.results}


def test_a_good_model_passes_what_is_asked_by_default(bundle):
    for figure in ("malignant_sensitivity", "sensitivity_at_threshold"):
        rows = {name: row(round(GOOD * n), n, figure) for name, n in TONES.items()}
        told = judged(DEFAULT, release(bundle, **rows), running=release(bundle, **rows))
        assert {one.verdict for one in told.values()} <= {"passed", "not applicable"}, told
        assert told["no_worse"].verdict == "passed"


def test_the_demos_failure_is_refused_with_its_subgroup_and_figures(bundle):
    """Personalization lowered what is found on dark skin from 18 to 7 of 21 while accuracy rose."""
    before = good(dark=row(18, 21, accuracy=0.70))
    after = good(dark=row(7, 21, accuracy=0.82))
    told = judged(DEFAULT, release(bundle, **after), release(bundle, **before))
    assert [name for name, one in told.items() if one.verdict == "refused"] == [
        "shown_sensitivity",
        "no_worse",
    ]
    loss = told["no_worse"]
    assert "malignant sensitivity for dark goes 0.857 -> 0.333, a loss of 0.524" in loss.detail
    (worse,) = [one for one in loss.findings if one.verdict == "refused"]
    assert (worse.subgroup, worse.value) == ("dark", pytest.approx(11 / 21))
    shown = told["shown_sensitivity"]
    assert (
        "malignant sensitivity of dark is shown to be 0.146 at least (0.333, 7 of 21 found)" in shown.detail
    )
    assert "Improve the model for dark" in shown.detail


def test_a_first_release_of_the_demos_model_does_not_pass(bundle):
    for found in (7, 18):
        told = judged(DEFAULT, release(bundle, **good(dark=row(found, 21))))
        assert [name for name, one in told.items() if one.verdict == "refused"] == ["shown_sensitivity"]


def test_what_is_too_weak_and_what_is_too_few_are_told_apart(bundle):
    one = ShownSensitivityGate(limit=0.75).judge(
        Case(release(bundle, **good(dark=row(18, 21), medium=row(60, 120))))
    )
    assert "Improve the model for medium; test on more malignant pictures of dark, or" in one.detail
    assert one.value == pytest.approx(clopper_pearson(60, 120)[0])


@pytest.mark.parametrize(
    ("found", "n", "verdict"), [(19, 20, "passed"), (18, 20, "refused"), (51, 60, "refused")]
)
def test_the_lower_end_decides(bundle, found, n, verdict):
    one = ShownSensitivityGate(limit=0.75).judge(Case(release(bundle, dark=row(found, n))))
    assert one.verdict == verdict
    assert one.value == pytest.approx(clopper_pearson(found, n)[0])


def test_what_a_clinic_acts_on_is_judged(bundle):
    at_point = row(57, 60, "sensitivity_at_threshold", malignant_sensitivity=0.4)
    one = ShownSensitivityGate(limit=0.75).judge(Case(release(bundle, dark=at_point)))
    assert one.verdict == "passed"
    assert "at the working point" in one.findings[0].measure
    missed = row(30, 60, "sensitivity_at_threshold", malignant_sensitivity=0.95)
    assert ShownSensitivityGate(limit=0.75).judge(Case(release(bundle, dark=missed))).verdict == "refused"


@pytest.mark.parametrize("gate", [ShownSensitivityGate(limit=0.0), RequiredSubgroupsGate(malignant=1)])
def test_nothing_malignant_is_no_proof_that_groups_are_equal(bundle, gate):
    empty = {"light": row(0, 0), "dark": row(0, 0)}
    told = gate.judge(Case(release(bundle, **empty)))
    assert (told.verdict, told.untested) == ("refused", ("dark", "light"))


def test_subgroups_that_are_asked_for_must_be_there(bundle):
    gate = RequiredSubgroupsGate(malignant=20, subgroups=("dark", "medium", "light"))
    assert gate.judge(Case(release(bundle, **good()))).verdict == "passed"
    rows = good()
    del rows["dark"]
    one = gate.judge(Case(release(bundle, **rows)))
    assert (one.verdict, one.untested) == ("refused", ("dark",))
    assert "there are 0 malignant test pictures of dark" in one.detail
    assert RequiredSubgroupsGate(malignant=20).judge(Case(release(bundle, **rows))).verdict == "passed"
    only_dark = RequiredSubgroupsGate(malignant=20, subgroups=("dark",))
    assert only_dark.judge(Case(release(bundle, **good(light=row(0, 0))))).verdict == "passed"


def test_a_subgroup_that_the_test_calls_absent_is_missed(bundle):
    rows = good()
    del rows["dark"]
    metrics = {"n": 100, "by_subgroup": rows, "absent": ["dark", "undeclared"]}
    manifests = (bundle(metrics=metrics, labels=CANCER).manifest,)
    one = RequiredSubgroupsGate(malignant=20).judge(Case(manifests))
    assert (one.verdict, one.untested) == ("refused", ("dark",))


def test_the_version_that_answers_is_judged(bundle, dark):
    everybody = bundle(metrics={"n": 100, "by_subgroup": good(dark=row(3, 60))}, labels=CANCER).manifest
    own = bundle(dark, {"n": 100, "by_subgroup": {"dark": row(58, 60)}}, labels=CANCER).manifest
    assert ShownSensitivityGate(limit=0.75).judge(Case((everybody,))).verdict == "refused"
    assert ShownSensitivityGate(limit=0.75).judge(Case((everybody, own))).verdict == "passed"


def test_where_nothing_is_malignant_there_is_nothing_to_find(bundle, tested):
    manifests = (bundle(metrics=tested(light=0.9)).manifest,)
    for gate in (ShownSensitivityGate(limit=1.0), RequiredSubgroupsGate(malignant=20)):
        assert gate.judge(Case(manifests)).verdict == "not applicable"


@pytest.mark.parametrize(
    ("value", "interval", "target", "verdict"),
    [
        (0.15, [0.09, 0.25], 0.1, "passed"),  # it may be chance
        (0.17, [0.118, 0.238], 0.1, "refused"),
        (0.17, [0.118, 0.238], 0.2, "passed"),
        (0.11, None, 0.1, "refused"),
        (None, None, 0.1, "refused"),
    ],
)
def test_a_risk_is_refused_where_its_target_is_missed_for_certain(bundle, value, interval, target, verdict):
    figures = row(57, 60, reported_risk=value, intervals={"reported_risk": interval} if interval else {})
    metrics = {"n": 100, "by_subgroup": {"dark": figures}}
    manifest = bundle(metrics=metrics, labels=CANCER, abstention=Abstention(target_risk=target)).manifest
    assert RiskGate().judge(Case((manifest,))).verdict == verdict


def test_there_is_no_risk_where_nobody_is_answered(bundle):
    figures = row(57, 60, reported=0.0, reported_risk=None)
    one = RiskGate().judge(Case(release(bundle, dark=figures)))
    assert (one.verdict, one.findings[0].note) == ("not applicable", "nobody is answered")


def test_groups_without_malignant_pictures_are_alike_only_in_accuracy(bundle):
    alike = release(bundle, light=row(190, 200), dark=row(0, 0))
    told = judged(DEFAULT, alike)
    assert told["spread"].verdict == "passed"
    assert "of dark no malignant picture was tested" in told["spread"].detail
    assert told["required_subgroups"].verdict == "refused"
    assert "no malignant" not in judged(DEFAULT, release(bundle, **good()))["spread"].detail


FOUR = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))


def claiming(bundle, counted, everybody=None) -> Case:
    """A release of everybody and of a subgroup of four tones, with these numbers of patients."""
    own = bundle(FOUR, good()["dark"], labels=CANCER, patients_by_tone=counted).manifest
    return Case((bundle(metrics={"n": 10}, patients_by_tone=everybody).manifest, own))


def counts(calibration: dict[str, int], test: dict[str, int]) -> TonePatients:
    return TonePatients(calibration={"fitzpatrick": calibration}, test={"fitzpatrick": test})


ALL = {"3": 45, "4": 20, "5": 12, "6": 10}


@pytest.mark.parametrize(
    ("counted", "verdict", "of"),
    [
        (counts(ALL, ALL), "passed", None),
        (counts({**ALL, "6": 9}, ALL), "refused", "6 (fitzpatrick) in calibration"),
        (counts(ALL, {**ALL, "5": 9}), "refused", "5 (fitzpatrick) in test"),
        (counts({"3": 45, "4": 20, "5": 12}, ALL), "refused", "6 (fitzpatrick) in calibration"),
        (TonePatients(), "refused", "3 (fitzpatrick) in calibration"),
        (None, "refused", "3 (fitzpatrick) in calibration"),
    ],
)
def test_a_subgroup_that_names_a_tone_it_has_not_seen_is_refused(bundle, counted, verdict, of):
    one = TonesGate().judge(claiming(bundle, counted))
    assert one.verdict == verdict
    refused = [finding.measure for finding in one.findings if finding.verdict == "refused"]
    assert refused[:1] == ([f"patients of skin tone {of}"] if of else [])
    # The neighbour counts malignant pictures of the whole subgroup, and sees none of this.
    by_subgroup = {"n": 100, "by_subgroup": {"medium-dark": row(57, 60)}}
    whole = bundle(metrics=by_subgroup, labels=CANCER).manifest
    own = bundle(FOUR, by_subgroup, labels=CANCER, patients_by_tone=counted).manifest
    assert RequiredSubgroupsGate(malignant=20).judge(Case((whole, own))).verdict == "passed"


def test_the_default_asks_by_skin_tone_and_a_bundle_that_does_not_tell_is_refused(bundle):
    told = judged(DEFAULT, claiming(bundle, None).manifests)["tones"]
    assert told.verdict == "refused"
    assert "the bundle of medium-dark does not tell how many patients of each skin tone" in told.detail
    assert "Train it again" in told.detail
