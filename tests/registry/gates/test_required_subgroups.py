"""The gates `required_subgroups` and `tones`: who was in the data."""

import pytest

from registry.bundle.evaluation import ReferenceHistograms, SubgroupHistograms
from registry.bundle.labels import Subgroup, TonePatients
from registry.gates import Case
from registry.gates.required_subgroups import RequiredSubgroupsGate, TonesGate
from tests.registry.conftest import tones_of
from tests.registry.gates.conftest import CANCER

GOOD = {"light": (0.95, 200), "medium": (0.95, 120), "dark": (0.95, 60)}
TWO = {name: GOOD[name] for name in ("light", "medium")}


@pytest.fixture
def judge(bundle, found):
    """Judges a release of one version with these subgroups."""

    def make(rows, absent=None, malignant=20, **settings):
        manifest = bundle(metrics={**found(**rows), "absent": absent or []}, labels=CANCER).manifest
        return RequiredSubgroupsGate(malignant=malignant, **settings).judge(Case((manifest,)))

    return make


@pytest.mark.parametrize(
    ("rows", "settings", "untested"),
    [
        (GOOD, {"subgroups": ("dark", "medium", "light")}, None),
        (TWO, {"subgroups": ("dark", "medium", "light")}, ("dark",)),
        (TWO, {}, None),
        (TWO, {"absent": ["dark", "undeclared"]}, ("dark",)),
        ({**GOOD, "light": (0.0, 0)}, {"subgroups": ("dark",)}, None),
        ({**GOOD, "light": (0.0, 0)}, {"malignant": 1}, ("light",)),
        ({**GOOD, "light": (0.9, 20)}, {}, None),
        ({**GOOD, "light": (0.9, 19)}, {}, ()),
    ],
)
def test_each_required_subgroup_is_tested_on_enough_malignant_images(judge, rows, settings, untested):
    one = judge(rows, **settings)
    assert (one.verdict, one.untested) == ("passed" if untested is None else "refused", untested or ())


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
        (("5", "6"), "dark", "passed"),
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
    one = gate.judge(Case(over("1", "2"), running=over("5", "6")))
    assert one.verdict == "refused"
    assert "over 1, 2 (fitzpatrick), and over 5, 6 (fitzpatrick) in the running release" in one.detail
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
        (counts({"3": 45, "4": 20, "5": 12}, ALL), "6 (fitzpatrick) in calibration"),
        (TonePatients(), "3 (fitzpatrick) in calibration"),
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


def test_the_global_version_claims_no_tone_of_a_subgroup_with_its_own(bundle, over):
    (everybody,) = over("1", "6", name="medium-dark")
    own = bundle(FOUR, {"n": 50}, patients_by_tone=counts(ALL, ALL)).manifest
    silent = everybody.model_copy(update={"patients_by_tone": None})
    assert TonesGate().judge(Case((silent, own))).verdict == "passed"
    assert TonesGate().judge(Case((silent,))).verdict == "refused"
