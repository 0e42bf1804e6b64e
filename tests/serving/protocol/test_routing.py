from typing import get_args

import pytest

from registry.bundle.manifest.schema import Subgroup, TonePatients
from registry.bundle.model_file.graph import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.protocol.routing import ROUTES, Route, select_subgroup
from tests.represented import patients_of
from tests.thresholds import logistic

TONES = {
    "global": Subgroup(),
    "light": Subgroup(name="light", scale="fitzpatrick", values=("1", "2")),
    "dark": Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI")),
}
OVER_SCALES = {
    "global": Subgroup(),
    "light": Subgroup(name="light", tones={"fitzpatrick": ("1", "2"), "milk10k": ("4", "5")}),
    "dark": Subgroup(name="dark", tones={"fitzpatrick": ("V", "VI"), "milk10k": ("0", "1")}),
    "darkest": Subgroup(name="darkest", scale="monk", values=("10",)),
}
DECLARED = ("declared", "declared")
NO_MODEL = ("no-model-for-subgroup", "no-model-for-subgroup")
MONK = {"global": Subgroup(), "pale": Subgroup(name="pale", scale="monk", values=("1", "2"))}


@pytest.mark.parametrize(
    ("subgroups", "tone", "scale", "answers", "route"),
    [
        (TONES, None, "fitzpatrick", "global", "unknown-tone"),
        (TONES, "1", "fitzpatrick", "light", "declared"),
        (TONES, "6", "fitzpatrick", "dark", "declared"),
        (TONES, "3", "fitzpatrick", "global", "no-model-for-subgroup"),
        (TONES, "1", "monk", "global", "other-scale"),
        (TONES | MONK, "1", "monk", "pale", "declared"),
        (TONES | MONK, "7", "monk", "global", "no-model-for-subgroup"),
        (TONES | MONK, "12", "ddi", "global", "other-scale"),
        (OVER_SCALES, "6", "fitzpatrick", "dark", "declared"),
        (OVER_SCALES, "0", "milk10k", "dark", "declared"),
        (OVER_SCALES, "1", "fitzpatrick", "light", "declared"),
        (OVER_SCALES, "1", "milk10k", "dark", "declared"),
        (OVER_SCALES, "5", "milk10k", "light", "declared"),
        (OVER_SCALES, "10", "monk", "darkest", "declared"),
        (OVER_SCALES, "3", "milk10k", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "3", "fitzpatrick", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "9", "monk", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "12", "ddi", "global", "other-scale"),
        (OVER_SCALES, None, "milk10k", "global", "unknown-tone"),
        ({"global": Subgroup()}, "1", "fitzpatrick", "global", "no-model-for-subgroup"),
        ({"global": Subgroup()}, None, "monk", "global", "unknown-tone"),
    ],
)
def test_who_answers_and_why(bundle, subgroups, tone, scale, answers, route):
    versions = {name: bundle(subgroup).manifest for name, subgroup in subgroups.items()}
    routed = select_subgroup(versions, tone, scale)
    assert (routed.subgroup, routed.route, routed.reason) == (answers, route, route)


FOUR_TONES = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "VI"))


@pytest.mark.parametrize(
    ("own", "everybody", "tone", "answers", "route", "reason"),
    [
        # the control: with patients of every tone each is the subgroup's
        (patients_of(FOUR_TONES), patients_of(Subgroup()), "6", "medium-dark", "declared", "declared"),
        (
            patients_of(FOUR_TONES, without="6"),
            patients_of(Subgroup()),
            "VI",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (patients_of(FOUR_TONES, without="6"), patients_of(Subgroup()), "5", "medium-dark", *DECLARED),
        # in the test alone, or told by nobody
        (
            TonePatients(test={"fitzpatrick": {"6": 40}}),
            patients_of(Subgroup()),
            "6",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (None, patients_of(Subgroup()), "6", "global", "unknown-tone", "tone-not-represented"),
        # of no subgroup: known to the global calibration, and left out of it
        (patients_of(FOUR_TONES), patients_of(Subgroup()), "1", "global", *NO_MODEL),
        (
            patients_of(FOUR_TONES),
            patients_of(Subgroup(), without="1"),
            "1",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (patients_of(FOUR_TONES), None, "1", "global", "unknown-tone", "tone-not-represented"),
    ],
)
def test_a_subgroup_answers_for_the_tones_that_its_calibration_has_seen(
    bundle, own, everybody, tone, answers, route, reason
):
    versions = {
        "global": bundle(patients_by_tone=everybody).manifest,
        "medium-dark": bundle(FOUR_TONES, patients_by_tone=own).manifest,
    }
    routed = select_subgroup(versions, tone, "fitzpatrick")
    assert (routed.subgroup, routed.route, routed.reason) == (answers, route, reason)


def test_every_route_is_named():
    assert set(ROUTES) == set(get_args(Route))
    assert set(ROUTES) == {"declared", "unknown-tone", "other-scale", "no-model-for-subgroup"}


UNDECLARED = "No skin tone was declared"
NOT_BY_ITSELF = "nothing is promised for skin tone"


@pytest.mark.parametrize(
    ("parameters", "answers", "route", "warning"),
    [
        ({}, "global", "unknown-tone", UNDECLARED),
        ({"skin_tone": ""}, "global", "unknown-tone", UNDECLARED),
        ({"skin_tone_scale": "monk"}, "global", "unknown-tone", UNDECLARED),
        ({"skin_tone": "1"}, "light", "declared", None),
        ({"skin_tone": "II"}, "light", "declared", None),
        ({"skin_tone": "2.0"}, "light", "declared", None),
        ({"skin_tone": "5"}, "dark", "declared", None),
        ({"skin_tone": "vi", "skin_tone_scale": "Fitzpatrick"}, "dark", "declared", None),
        ({"skin_tone": "III"}, "global", "no-model-for-subgroup", f"{NOT_BY_ITSELF} 3 (fitzpatrick)"),
        ({"skin_tone": "5", "skin_tone_scale": "monk"}, "global", "other-scale", f"{NOT_BY_ITSELF} 5 (monk)"),
        ({"skin_tone": "12", "skin_tone_scale": "ddi"}, "global", "other-scale", f"{NOT_BY_ITSELF} 12 (ddi)"),
    ],
)
def test_each_route_over_http_is_answered_by_the_version_it_names(
    service, released, bundle, light, dark, picture, parameters, answers, route, warning
):
    subgroups = {"global": None, "light": light, "dark": dark}
    sent = picture(colour=(210, 40, 90))
    answer = service.diagnose(sent, params=parameters).json()
    version = released.for_subgroup(answers)
    assert answer["model"] == {
        "name": "skin-lesion",
        "version": version.number,
        "subgroup": answers,
        "digest": version.digest,
        "route": route,
    }
    own = bundle(subgroups[answers])
    expected = Graph(own.model).run(decode_picture(sent, PictureRule(size=8))[None]).probabilities[0]
    got = {finding["code"]: finding["probability"] for finding in answer["findings"]}
    assert got == {label.code: float(p) for label, p in zip(own.manifest.labels, expected, strict=True)}
    assert answer["prediction_set"]["guarantee"] == ("subgroup" if route == "declared" else "global")
    assert [said for said in answer["warnings"] if warning is None or warning in said] == answer["warnings"]
    assert bool(answer["warnings"]) == (warning is not None)


def test_the_versions_see_another_thing_in_one_picture(service, picture):
    sent = picture(colour=(210, 40, 90))
    answers = [
        service.diagnose(sent, params=tone).json() for tone in ({}, {"skin_tone": 1}, {"skin_tone": 5})
    ]
    scores = [{finding["code"]: finding["probability"] for finding in one["findings"]} for one in answers]
    assert scores[0] != scores[1] != scores[2] != scores[0]


def test_an_answer_is_what_the_contract_says(service):
    answer = service.diagnose(params={"skin_tone": "V"}).json()
    assert list(answer) == [
        "id",
        "created",
        "decision",
        "reasons",
        "model",
        "findings",
        "prediction_set",
        "malignancy",
        "confidence",
        "quality",
        "warnings",
        "disclaimer",
    ]
    probabilities = [finding["probability"] for finding in answer["findings"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=1e-6)
    melanoma = next(finding for finding in answer["findings"] if finding["code"] == "MEL")
    assert melanoma == {
        "code": "MEL",
        "name": "Melanoma",
        "malignancy": "malignant",
        "probability": melanoma["probability"],
        "coding": {"icd10": "C43.9"},
    }
    assert answer["malignancy"]["probability"] == pytest.approx(melanoma["probability"], abs=1e-9)
    confidence = answer["confidence"]
    assert confidence == {
        "value": probabilities[0],
        "threshold": pytest.approx(logistic(0.25)),
        "calibrated_on_n": 412,
    }
    assert answer["decision"] == ("report" if confidence["value"] >= logistic(0.25) else "refer")
    assert answer["prediction_set"]["coverage"] == 0.9
    assert answer["created"].endswith("Z")
    assert "not a medical device" in answer["disclaimer"]


def test_an_unsure_answer_is_referred(service, picture):
    answer = service.diagnose(picture("PNG", colour=(90, 90, 90)), "image/png").json()
    assert answer["decision"] == "refer"
    assert answer["confidence"]["value"] < answer["confidence"]["threshold"]
