"""The gates `spread`, `required_subgroups` and `tones`: equal service, and who was in the data."""

import math

import pytest

from registry.bundle.evaluation import ReferenceHistograms, SubgroupHistograms
from registry.bundle.labels import Subgroup, TonePatients
from registry.gate_report import GateReport, SubgroupFigure
from registry.gates import Case, GateSet, SpreadGate
from registry.gates.fairness import RequiredSubgroupsGate, TonesGate, spread_interval
from tests.registry.conftest import tones_of
from tests.registry.gates.conftest import CANCER


def spread(manifests, limit=0.10):
    return SpreadGate(limit=limit).judge(Case(tuple(manifests)))


def test_a_subgroup_counts_with_the_version_that_answers_for_it(manifests, tested, tones):
    everybody = tested(light=0.90, dark=0.60, medium=0.85)
    assert spread(manifests(everybody)).value == pytest.approx(0.30)
    result = spread(manifests(everybody, dark=(tones("dark", "5"), tested(dark=0.82, light=0.10))))
    assert (result.verdict, result.value) == ("passed", pytest.approx(0.08))
    assert [(one.subgroup, one.value, one.n) for one in (result.best, result.worst)] == [
        ("light", 0.90, 200),
        ("dark", 0.82, 200),
    ]


@pytest.mark.parametrize(
    ("best", "worst", "verdict"), [(0.8, 0.7, "passed"), (0.8, 0.699, "refused"), (0.5, 0.5, "passed")]
)
def test_the_limit_itself_passes(manifests, tested, best, worst, verdict):
    # 0.8 - 0.7 is 0.10000000000000009 in floating point.
    assert spread(manifests(tested(light=best, dark=worst))).verdict == verdict


def test_the_interval_is_the_one_of_zou_and_donner(manifests, tested):
    result = spread(manifests(tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))))
    # d = 0.2; low = 0.2 - sqrt(0.06^2 + 0.12^2), high = 0.2 + sqrt(0.04^2 + 0.15^2), by hand.
    assert result.interval == pytest.approx((0.0658359, 0.3552417), abs=1e-6)
    assert (result.verdict, "95 % interval 0.066 to 0.355" in result.detail) == ("refused", True)


def test_the_printed_example_of_newcombe_is_met():
    """56/70 - 48/80 with Wilson's intervals: 0.0524 to 0.3339 (Newcombe 1998, Stat. Med. 17, method 10)."""

    def wilson(name, successes, n, z=1.959964):
        p = successes / n
        centre, half = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        ends = (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)
        return SubgroupFigure(subgroup=name, value=p, n=n, interval=ends)

    found = spread_interval(wilson("a", 56, 70), wilson("b", 48, 80))
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_is_never_negative_and_the_verdict_goes_by_the_point(manifests, tested):
    result = spread(manifests(tested(light=(0.8, 0.5, 1.0), dark=(0.75, 0.4, 0.95))))
    assert (result.interval[0], result.verdict) == (0, "passed")
    assert result.interval[1] > 0.10
    without = spread(manifests(tested(light=0.9, dark=(0.85, 0.8, 0.9))))
    assert (without.interval, without.verdict) == (None, "passed")


def test_a_subgroup_that_was_never_tested_is_refused(manifests, tested, tones):
    own = {"dark": (tones("dark", "5"), tested(light=0.9)), "third": (tones("third", "6"), {})}
    result = spread(manifests(tested(light=0.9, dark=0.9), **own))
    assert (result.verdict, result.untested, result.value) == ("refused", ("dark", "third"), None)
    assert spread(manifests({})).untested == ("global",)


@pytest.mark.parametrize(
    ("metrics", "named"),
    [({"n": 9}, "none"), ({"by_subgroup": {"light": {"n": 9, "accuracy": 1.0}}}, "only light")],
)
def test_with_fewer_than_two_subgroups_the_gate_does_not_apply_and_says_so(manifests, metrics, named):
    result = spread(manifests(metrics))
    assert result.verdict == "not applicable"
    assert result.detail.endswith(f"the test metrics name {named}")


def test_groups_without_malignant_images_are_equal_only_in_accuracy(bundle, found):
    for n, said in ((60, False), (0, True)):
        metrics = found(light=(0.9, 60), dark=(0.9, n))
        for row in metrics["by_subgroup"].values():
            row |= {"n": 120, "n_other": 120 - row["n_malignant"], "accuracy": 0.8}
        result = spread([bundle(metrics=metrics, labels=CANCER).manifest])
        assert ("no malignant image of dark was tested" in result.detail) is said


GOOD = {"light": (0.95, 200), "medium": (0.95, 120), "dark": (0.95, 60)}
TWO = {name: GOOD[name] for name in ("light", "medium")}
ALL_THREE = ("dark", "medium", "light")


@pytest.mark.parametrize(
    ("rows", "absent", "settings", "untested"),
    [
        (GOOD, [], {"subgroups": ALL_THREE}, None),
        (TWO, [], {"subgroups": ALL_THREE}, ("dark",)),
        (TWO, [], {}, None),
        (TWO, ["dark", "undeclared"], {}, ("dark",)),
        ({**GOOD, "light": (0.0, 0)}, [], {"subgroups": ("dark",)}, None),
        ({**GOOD, "light": (0.0, 0)}, [], {"malignant": 1}, ("light",)),
        ({**GOOD, "light": (0.9, 20)}, [], {}, None),
        ({**GOOD, "light": (0.9, 19)}, [], {}, ()),
    ],
)
def test_each_required_subgroup_is_tested_on_enough_malignant_images(
    bundle, found, rows, absent, settings, untested
):
    manifest = bundle(metrics={**found(**rows), "absent": absent}, labels=CANCER).manifest
    one = RequiredSubgroupsGate(**{"malignant": 20, **settings}).judge(Case((manifest,)))
    assert (one.verdict, one.untested) == ("passed" if untested is None else "refused", untested or ())
    assert ("(never tested)" in one.detail) == bool(untested)


def test_images_that_were_never_counted_are_refused(bundle):
    rows = {"dark": {"n": 50, "malignant_sensitivity": 0.9}}
    manifest = bundle(metrics={"by_subgroup": rows}, labels=CANCER).manifest
    one = RequiredSubgroupsGate(malignant=1).judge(Case((manifest,)))
    assert one.verdict == "refused"
    assert "never counted. Test again, counting malignant images of dark, or override" in one.detail


@pytest.fixture
def over(bundle, found):
    """A release whose test names a subgroup over these tones."""

    def make(*tones, name="dark"):
        counts = {"confidence": [0] * 320, "scores": [[0] * 320] * 2}
        tested = SubgroupHistograms(subgroup=tones_of(name, *tones), **counts)
        reference = ReferenceHistograms(by_subgroup=(tested,), **counts)
        metrics = found(light=(0.95, 60), **{name: (0.95, 60)})
        return (bundle(metrics=metrics, labels=CANCER, reference=reference).manifest,)

    return make


ASKED = RequiredSubgroupsGate(malignant=20, tones={"dark": {"fitzpatrick": ("5", "6")}})


@pytest.mark.parametrize(
    ("tones", "name", "verdict"),
    [
        (("4", "5", "6"), "dark", "passed"),
        (("V", "VI"), "dark", "passed"),
        (("6",), "dark", "refused"),
        (("1", "2"), "dark", "refused"),
        (("5", "6"), "Dark", "refused"),
        (("5", "6"), "dark ", "refused"),
    ],
)
def test_a_name_does_not_represent_other_tones(over, tones, name, verdict):
    one = ASKED.judge(Case(over(*tones, name=name)))
    assert one.verdict == verdict
    if tones == ("1", "2"):
        assert "over 1, 2 (fitzpatrick), and required over 5, 6" in one.detail
        assert "Rename, or test on these tones, dark, or override" in one.detail


def test_a_subgroup_keeps_the_tones_that_it_has_in_the_running_release(over, bundle, found):
    gate = RequiredSubgroupsGate(malignant=20)
    assert gate.judge(Case(over("1", "2"))).verdict == "passed"
    assert gate.judge(Case(over("5", "6"), running=over("V", "VI"))).verdict == "passed"
    assert gate.judge(Case(over("4", "5", "6"), running=over("5", "6"))).verdict == "refused"
    without_tones = bundle(metrics=found(**GOOD), labels=CANCER).manifest
    assert ASKED.judge(Case((without_tones,))).verdict == "refused"


FOUR = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))
ALL = {"3": 45, "4": 20, "5": 12, "6": 10}


def counts(calibration: dict[str, int], test: dict[str, int]) -> TonePatients:
    return TonePatients(calibration={"fitzpatrick": calibration}, test={"fitzpatrick": test})


@pytest.mark.parametrize(
    ("counted", "of"),
    [
        (counts(ALL, ALL), None),
        (counts({**ALL, "6": 9}, ALL), "6 (fitzpatrick) in calibration"),
        (counts(ALL, {**ALL, "5": 9}), "5 (fitzpatrick) in test"),
        (counts(ALL, {"3": 45, "4": 20, "5": 12}), "6 (fitzpatrick) in test"),
        (counts({}, ALL), "3 (fitzpatrick) in calibration"),
        (None, "3 (fitzpatrick) in calibration"),
    ],
)
def test_a_subgroup_that_names_a_tone_it_has_not_seen_is_refused(bundle, found, counted, of):
    metrics = found(**{"medium-dark": (0.95, 60)})
    whole = bundle(metrics=metrics, labels=CANCER).manifest
    own = bundle(FOUR, metrics, labels=CANCER, patients_by_tone=counted).manifest
    one = TonesGate().judge(Case((whole, own)))
    refused = [finding.measure for finding in one.findings if finding.verdict == "refused"]
    assert one.verdict == ("refused" if of else "passed")
    assert refused[:1] == ([f"patients of skin tone {of}"] if of else [])
    assert ("the bundle has no patients_by_tone" in one.detail) is (counted is None)
    # The other gate counts malignant images of the whole subgroup, and sees none of this.
    assert RequiredSubgroupsGate(malignant=20).judge(Case((whole, own))).verdict == "passed"


def test_a_tone_that_is_answered_as_unknown_keeps_no_other_out(bundle, found):
    """Type 6 is not in the calibration: it is reported, and refused where the running release had it."""
    metrics = found(**{"medium-dark": (0.95, 60)})
    whole = bundle(metrics=metrics, labels=CANCER).manifest
    had, has_not = (
        bundle(FOUR, metrics, labels=CANCER, patients_by_tone=counts(of, ALL)).manifest
        for of in (ALL, {"3": 45, "4": 20, "5": 12})
    )
    gates = GateSet(gates=(TonesGate(),))
    (first,) = gates.judge(Case((whole, has_not)))
    assert first.verdict == "passed"
    assert GateReport(results=(first,)).not_judged == (
        "tones, of medium-dark (skin tone 6 (fitzpatrick) has too few patients, and is answered as an "
        "unknown tone)",
    )
    (then,) = gates.judge(Case((whole, has_not), running=(whole, had)))
    assert then.verdict == "refused"
    assert "patients of skin tone 6 (fitzpatrick) in calibration" in then.detail
    (strict,) = GateSet(gates=(TonesGate(),), must_apply=("tones",)).judge(Case((whole, has_not)))
    assert strict.verdict == "refused"


def test_the_global_version_claims_no_tone_of_a_subgroup_with_its_own(bundle, over):
    (everybody,) = over("1", "6", name="medium-dark")
    own = bundle(FOUR, {"n": 50}, patients_by_tone=counts(ALL, ALL)).manifest
    silent = everybody.model_copy(update={"patients_by_tone": None})
    assert TonesGate().judge(Case((silent, own))).verdict == "passed"
    assert TonesGate().judge(Case((silent,))).verdict == "refused"
