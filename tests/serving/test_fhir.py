"""A diagnosis as FHIR.

Validated by `fhir.resources`, which has R4B (4.3.0) and not R4 (4.0.1): the resources that are used here are
the same in both. It does not check codes against value sets; `check` does for those that R4 requires.
"""

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Annotated

import pytest
from fhir.resources.R4B.bundle import Bundle
from fhir.resources.R4B.operationoutcome import OperationOutcome
from hypothesis import given
from hypothesis import strategies as st

from registry.bundle.labels import Coding, Label, short
from serving.http.openapi import describe
from serving.protocol.fhir import UNCERTAIN, clean, components, fhir_bundle
from serving.protocol.fields import Coded, example
from serving.protocol.negotiation import prefers_fhir
from serving.protocol.parameters import Parameters
from serving.protocol.problems import NotAcceptable
from serving.protocol.schemas import (
    Answer,
    Conclusion,
    Diagnosis,
    KindMissed,
    MalignancyRisk,
    PredictionSet,
    TriageEvidence,
)
from serving.settings import ServeSettings

FHIR = "application/fhir+json"
ICD10 = "http://hl7.org/fhir/sid/icd-10"
SNOMED = "http://snomed.info/sct"
UCUM = "http://unitsofmeasure.org"
ID = "6809b5ae-ae04-498f-bca7-08193bed3284"
MELANOMA = Label(
    code="MEL",
    name="Melanoma",
    malignancy="malignant",
    codings=(
        Coding(system=ICD10, version="2019", code="C43.9", display="Malignant melanoma", certain=True),
        Coding(system=SNOMED, code="93655004", display="Malignant melanoma of skin"),
    ),
)
LABELS = (
    MELANOMA,
    Label(code="NV", name="Melanocytic naevus", malignancy="benign"),
    Label(code="ODD", name="Something else"),
)
MODEL = {
    "name": "skin-lesion",
    "version": 3,
    "subgroup": "dark",
    "digest": "sha256:" + "a" * 64,
    "route": "declared",
}
DECLARED = Parameters("5")


def finding(label, probability):
    return {
        "code": label.code,
        "name": label.name,
        "malignancy": label.malignancy,
        "probability": probability,
        "coding": short(label.codings),
    }


def diagnosis(decision="report", **parts):
    given = {
        "id": ID,
        "triage": None,
        "triage_evidence": None,
        "conclusion": None,
        "created": datetime(2026, 1, 1, tzinfo=UTC),
        "decision": decision,
        "reasons": [{"code": "confident", "text": "It is."}, {"code": "declared", "text": "V was declared."}],
        "model": MODEL,
        "findings": [finding(LABELS[0], 0.62), finding(LABELS[1], 0.3)],
        "prediction_set": example(PredictionSet, codes=["MEL", "NV"], calibration_n=412),
        "malignancy": MalignancyRisk(probability=0.62),
        "quality": {"acceptable": True, "issues": []},
        "warnings": ["Mind the < & >."],
    }
    return example(Diagnosis, **{**given, **parts})


def translated(one=None, labels=LABELS, parameters=DECLARED):
    """The bundle of a diagnosis, once it has been found valid."""
    bundle = fhir_bundle(one or diagnosis(), labels, parameters)
    check(bundle)
    return bundle


def resources(bundle, kind):
    return [one["resource"] for one in bundle["entry"] if one["resource"]["resourceType"] == kind]


def report_of(bundle):
    (report,) = resources(bundle, "DiagnosticReport")
    return report


def observed(bundle, code):
    return [one for one in resources(bundle, "Observation") if one["code"]["coding"][0]["code"] == code]


def parts(observation):
    """The components of an observation, each with its code."""
    return [(one["code"]["coding"][0]["code"], one) for one in observation.get("component", [])]


def every(part, name):
    """All values of a key, however deep."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == name:
                yield value
            yield from every(value, name)
    elif isinstance(part, list):
        for one in part:
            yield from every(one, name)


# The codes of each resource, and of its narrative, whose value set R4 requires.
STATUSES = {
    "DiagnosticReport": {"partial", "generated"},
    "Observation": {"preliminary"},
    "Media": {"completed"},
    "Device": {"active"},
}


def check(bundle) -> None:
    """What R4 asks of a bundle like this."""
    Bundle.model_validate_json(json.dumps(bundle))
    assert bundle["type"] == "collection"
    for kind, allowed in STATUSES.items():
        assert all(set(every(one, "status")) == allowed for one in resources(bundle, kind)), kind
    addresses = [one["fullUrl"] for one in bundle["entry"]]
    assert len(set(addresses)) == len(addresses)
    for one in bundle["entry"]:
        assert one["fullUrl"] == f"urn:uuid:{uuid.UUID(one['resource']['id'])}"
    assert set(every(bundle, "reference")) <= set(addresses)
    (report,) = resources(bundle, "DiagnosticReport")
    made = [one for one in resources(bundle, "Observation") if "device" in one]  # others are what was given
    observations = [f"urn:uuid:{one['id']}" for one in made]
    assert [one["reference"] for one in report["result"]] == observations
    (origin,) = resources(bundle, "Provenance")
    assert {one["role"] for one in origin["entity"]} == {"source"}
    assert len(origin["target"]) == len(observations) + 1
    assert not list(every(bundle, "subject")), "no patient is made up"
    for one in resources(bundle, "Observation"):
        values = [name for name in one if name.startswith("value")]
        assert len(values) + ("dataAbsentReason" in one) <= 1  # obs-6
        assert values or one.get("component") or "dataAbsentReason" in one
        for _, component in parts(one):
            assert component["code"] != one["code"]  # obs-7
            assert len([name for name in component if name.startswith("value")] or ["x"]) == 1
    for text in [*every(bundle, "text"), *every(bundle, "display"), *every(bundle, "valueString")]:
        assert isinstance(text, dict) or (text.strip() == text and text)
    for code in every(bundle, "code"):
        assert isinstance(code, dict) or re.fullmatch(r"[^\s]+(\s[^\s]+)*", code)
    for system in every(bundle, "system"):
        assert re.fullmatch(r"(urn|https?):\S+", system)


def test_the_examples_of_the_description_are_valid():
    said = describe(ServeSettings())["paths"]["/v1/diagnoses"]["post"]["responses"]
    examples = {status: answer["content"][FHIR]["example"] for status, answer in said.items()}
    check(examples.pop("200"))
    assert examples
    for one in examples.values():
        OperationOutcome.model_validate(one)


def test_an_empty_set_does_not_read_as_if_all_were_ruled_out():
    empty = diagnosis(prediction_set=example(PredictionSet, codes=[]))
    said = report_of(translated(empty))["conclusion"]
    assert "No class is likely enough for the prediction set." in said
    assert "ruled out" not in said


@pytest.mark.parametrize(("level", "code", "coded"), [("diagnosis", "NV", ["NV"]), ("group", "other", [])])
def test_a_report_concludes_with_the_code_of_the_conclusion_and_a_group_has_none(level, code, coded):
    sure = example(Conclusion, level=level, code=code, name="naevus or so")
    report = report_of(translated(diagnosis(conclusion=sure)))
    assert [one["coding"][0]["code"] for one in report.get("conclusionCode", [])] == coded
    assert report["conclusion"].startswith("Concluded: naevus or so (71 %).")


def test_a_report_concludes_with_the_codes_of_the_first_finding():
    bundle = translated()
    report = report_of(bundle)
    own, certain, uncertain = report["conclusionCode"][0]["coding"]
    assert own == {"system": "urn:dermfed:class", "code": "MEL", "display": "Melanoma"}
    assert certain == {"system": ICD10, "version": "2019", "code": "C43.9", "display": "Malignant melanoma"}
    assert (uncertain["system"], uncertain["code"]) == (SNOMED, "93655004")
    assert uncertain["extension"] == [{"url": UNCERTAIN, "valueBoolean": True}]
    assert report["conclusion"].startswith(
        "Most probable: Melanoma (62 %). Possible: Melanoma, Melanocytic naevus. "
        "It is. V was declared. Mind the < & >."
    )
    assert report["conclusion"].endswith(diagnosis().disclaimer)
    assert "<p>Mind the &lt; &amp; &gt;.</p>" in report["text"]["div"]
    assert report["identifier"] == [{"system": "urn:dermfed:diagnosis", "value": ID}]
    assert not list(every(bundle, "interpretation"))


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("urgent", "Urgent: a clinician has to see this lesion before others. Not malignant: at most 10 of"),
        ("routine", "Routine: a clinician looks. Melanoma: at most 8 of 100 are ruled out"),
        ("ruled-out", "Ruled out: of 100 lesions of each kind of malignancy at most 8 are missed. Melanoma"),
    ],
)
def test_triage_is_the_first_observation_and_the_first_sentence(level, said):
    bundle = translated(diagnosis("refer", triage=level, triage_evidence=example(TriageEvidence)))
    assert report_of(bundle)["conclusion"].startswith(said)
    first = resources(bundle, "Observation")[0]
    assert first["valueCodeableConcept"]["coding"][0]["code"] == level
    limits = [
        one["referenceRange"][0]["high"]["value"] for name, one in parts(first) if name.endswith("-limit")
    ]
    assert limits == [0.1, 0.1]
    assert observed(translated(), "triage") == []  # the control


CASE = {
    "pictures": ["close-up", "dermoscopic", "unknown"],
    "facts": {"age": "70", "sex": "male", "site": "head_neck", "diameter": " 6 "},
    "pattern": "unknown+close-up+dermoscopic+context",
    "promised": True,
}

WHOLE = diagnosis(
    "refer",
    triage="urgent",
    triage_evidence=example(TriageEvidence),
    malignancy=MalignancyRisk(
        probability=0.62, threshold=0.2, above=True, sensitivity=0.94, specificity=0.61, n=117
    ),
    inputs=CASE,
    prediction_set=example(
        PredictionSet, codes=["ODD"], guarantee="subgroup", coverage=0.9, calibration_n=412
    ),
)


def value(element):
    """The value of a component, that of a quantity or the text of a concept."""
    (found,) = [element[name] for name in element if name.startswith("value")]
    return found.get("value", found.get("text", found)) if isinstance(found, dict) else found


@pytest.mark.parametrize(
    ("observation", "component", "expected"),
    [
        ("triage", "triage-missed", {"numerator": {"value": 4}, "denominator": {"value": 113}}),
        ("triage", "triage-missed-limit", 0.08),
        ("triage", "triage-false-alarms", {"numerator": {"value": 38}, "denominator": {"value": 512}}),
        ("triage", "triage-false-alarms-limit", 0.097),
        ("triage", "triage-guarantee", "subgroup"),
        ("triage", "triage-basis", "split"),
        ("triage", "triage-confidence", 0.95),
        ("decision", "declared-skin-tone", "5 (fitzpatrick)"),
        ("decision", "reason", "V was declared."),
        ("decision", "pattern", CASE["pattern"]),
        ("decision", "promised", True),
        ("prediction-set", "class", "Something else"),
        ("prediction-set", "coverage", 0.9),
        ("prediction-set", "guarantee", "subgroup"),
        ("prediction-set", "calibration-lesions", 412),
        ("malignancy-probability", "sensitivity", 0.94),
        ("malignancy-probability", "specificity", 0.61),
        ("malignancy-probability", "malignant-test-pictures", 117),
    ],
)
def test_a_part_of_the_answer_is_a_component_of_its_observation(observation, component, expected):
    (found,) = observed(translated(WHOLE), observation)
    assert value(dict(parts(found))[component]) == expected


@pytest.mark.parametrize(
    ("decision", "said", "issues"),
    [
        ("refer", "A clinician has to judge the lesion.", []),
        ("retake", "The picture has to be taken again.", ["Come nearer."]),
    ],
)
def test_where_nothing_is_reported_nothing_is_concluded(decision, said, issues):
    bundle = translated(diagnosis(decision, quality={"acceptable": not issues, "issues": issues}))
    report = report_of(bundle)
    assert "conclusionCode" not in report
    assert report["conclusion"].startswith(f"No result is reported. {said}")
    (decided,) = observed(bundle, "decision")
    assert decided["valueCodeableConcept"]["coding"][0]["code"] == decision
    doubted = [decided, *observed(bundle, "class-probability"), *observed(bundle, "malignancy-probability")]
    assert [one["interpretation"][0]["coding"][0]["code"] for one in doubted] == ["IND"] * 4
    (seen,) = observed(bundle, "picture-quality")
    assert seen["valueBoolean"] is not issues
    assert [one["text"] for one in seen.get("note", [])] == issues


def test_an_absent_malignancy_has_its_reason():
    (risk,) = observed(translated(diagnosis(malignancy={"probability": None})), "malignancy-probability")
    assert risk["dataAbsentReason"]["coding"][0]["code"] == "not-applicable"
    assert "valueQuantity" not in risk


def test_an_undeclared_tone_is_absent():
    (decision,) = observed(translated(parameters=Parameters()), "decision")
    tone = dict(parts(decision))["declared-skin-tone"]
    assert tone["dataAbsentReason"]["coding"][0]["code"] == "unknown"
    assert "valueString" not in tone


def test_the_model_is_a_device_and_the_origin_of_all():
    bundle = translated()
    (device,), (origin,) = resources(bundle, "Device"), resources(bundle, "Provenance")
    assert device["identifier"] == [{"system": "urn:dermfed:bundle", "value": MODEL["digest"]}]
    assert device["version"][0]["value"] == "3"
    assert device["deviceName"] == [{"name": "skin-lesion", "type": "model-name"}]
    address = f"urn:uuid:{device['id']}"
    assert origin["agent"][0]["who"] == {"reference": address}
    assert {one["device"]["reference"] for one in resources(bundle, "Observation")} == {address}
    assert origin["recorded"] == bundle["timestamp"] == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("decision", "above", "codes"),
    [
        ("report", True, ["above-working-point", "H"]),
        ("refer", True, ["IND", "above-working-point", "H"]),
        ("report", False, ["below-working-point"]),
    ],
)
def test_a_malignancy_is_interpreted_by_the_working_point(decision, above, codes):
    risk = MalignancyRisk(probability=0.62, threshold=0.2, above=above)
    (found,) = observed(translated(diagnosis(decision, malignancy=risk)), "malignancy-probability")
    assert [one["code"] for said in found["interpretation"] for one in said["coding"]] == codes
    assert found["referenceRange"][0]["high"]["value"] == 0.2


class Toy(Answer):
    """A part with a field of every type that has a component."""

    share: Annotated[float, Coded("share", "Which share")] = 0.5
    count: Annotated[int, Coded("count", "How many")] = 7
    clear: Annotated[bool, Coded("clear", "Whether clear")] = False
    kind: Annotated[str, Coded("kind", "Which kind")] = "plain"
    left_out: Annotated[float | None, Coded("left-out", "Not known")] = None
    secret: str = "?"


def test_a_field_becomes_a_component_by_its_type():
    said = {one["code"]["coding"][0]["code"]: one for one in components(Toy())}
    assert list(said) == ["share", "count", "clear", "kind"]
    assert said["share"]["valueQuantity"] == {
        "value": 0.5,
        "unit": "probability",
        "system": UCUM,
        "code": "1",
    }
    assert (said["count"]["valueInteger"], said["clear"]["valueBoolean"]) == (7, False)
    assert said["kind"]["valueCodeableConcept"]["coding"] == [{"system": "urn:dermfed:kind", "code": "plain"}]
    assert said["count"]["code"]["text"] == "How many"


def test_a_case_has_its_pictures_its_site_and_the_facts_that_were_sent():
    bundle = translated(diagnosis(inputs=CASE, would_help=[]))
    pictures, (origin,) = resources(bundle, "Media"), resources(bundle, "Provenance")
    assert [one["view"]["text"] for one in pictures] == ["close-up", "dermoscopic", "unknown"]
    assert {one["bodySite"]["text"] for one in pictures} == {"head neck"}
    links = [f"urn:uuid:{one['id']}" for one in pictures]
    assert [one["link"]["reference"] for one in report_of(bundle)["media"]] == links
    assert [one["what"]["reference"] for one in origin["entity"]] == links
    (decision,) = observed(bundle, "decision")
    assert decision["bodySite"]["coding"] == [{"system": "urn:dermfed:site", "code": "head_neck"}]
    (age,), (sex,), (other,) = (observed(bundle, code) for code in ("30525-0", "46098-0", "fact"))
    assert age["valueQuantity"] == {"value": 70.0, "unit": "years", "system": UCUM, "code": "a"}
    gender = {"system": "http://hl7.org/fhir/administrative-gender", "code": "male"}
    assert sex["valueCodeableConcept"]["coding"][0] == gender
    assert (other["code"]["text"], other["valueString"]) == ("diameter", "6")
    assert not {"device", "subject"} & set(age)


texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=12)
chances = st.floats(0, 1)
codings = st.builds(
    Coding,
    system=st.sampled_from([ICD10, SNOMED]),
    version=st.none() | texts,
    code=names,
    display=names,
    certain=st.booleans(),
)
labels = st.lists(
    st.builds(
        Label,
        code=names,
        name=names,
        malignancy=st.sampled_from(["malignant", "premalignant", "benign", "unknown"]),
        codings=st.lists(codings, max_size=2).map(tuple),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda label: label.code,
)
kinds = st.builds(KindMissed, kind=names, n=st.integers(0, 10**6), missed=st.integers(0, 10), high=chances)
cases = st.fixed_dictionaries(
    {
        "pictures": st.lists(st.sampled_from(CASE["pictures"]), min_size=1, max_size=3),
        "facts": st.dictionaries(st.sampled_from(["site", "weight", "phototype"]), texts),
        "pattern": st.just("close-up"),
        "promised": st.booleans(),
    }
)


@given(data=st.data(), labels=labels, decision=st.sampled_from(["report", "refer", "retake"]))
def test_every_diagnosis_is_a_valid_bundle(data, labels, decision):
    draw = data.draw
    triage = draw(st.sampled_from(["urgent", "routine", "ruled-out", None]))
    missed = {"limit": draw(chances), "kinds": draw(st.lists(kinds, max_size=3))}
    listed = labels[: draw(st.integers(1, len(labels)))]
    one = diagnosis(
        decision,
        triage=triage,
        triage_evidence=triage and example(TriageEvidence, missed=missed),
        created=draw(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))),
        model={**MODEL, "name": draw(names), "subgroup": draw(names)},
        reasons=[{"code": draw(names), "text": draw(texts)}],
        findings=[finding(label, draw(chances)) for label in listed],
        prediction_set={
            "codes": draw(st.lists(st.sampled_from([label.code for label in labels]), unique=True)),
            "coverage": draw(chances),
            "guarantee": draw(st.sampled_from(["subgroup", "global", "none"])),
            "calibration_n": draw(st.integers(0, 10**6)),
        },
        malignancy={"probability": draw(st.none() | chances)},
        quality={"acceptable": draw(st.booleans()), "issues": draw(st.lists(texts, max_size=2))},
        warnings=draw(st.lists(texts, max_size=3)),
        inputs=draw(st.none() | st.just(CASE) | cases),
    )
    tone = draw(st.sampled_from([Parameters(), Parameters("5"), Parameters("10", "monk")]))
    assert ("conclusionCode" in report_of(translated(one, labels, tone))) == (decision == "report")


@given(text=st.text())
def test_a_cleaned_text_is_one_that_fhir_allows(text):
    assert re.fullmatch(r"([^\s\x00-\x1f\x7f]+( [^\s\x00-\x1f\x7f]+)*)?", clean(text))


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], False),
        (["*/*"], False),
        ([" "], False),
        (["application/json"], False),
        ([FHIR], True),
        ([f"{FHIR}; fhirVersion=4.0"], True),
        ([f"{FHIR}; fhirVersion=5.0, application/json;q=0.1"], False),
        ([f"{FHIR};q=0.5, application/json;q=0.9"], False),
        ([f"{FHIR}, */*"], True),
        ([f"{FHIR};q=0.8, */*"], False),
        ([f"{FHIR};q=0.8, */*;q=0.1, application/*"], False),
    ],
)
def test_fhir_is_for_callers_that_ask_for_it(accept, chosen):
    assert prefers_fhir(accept) is chosen


@pytest.mark.parametrize(
    "accept",
    [
        "application/fhir+xml",
        f"{FHIR}; fhirVersion=4.3",
        f"{FHIR};q=0, application/xml",
        f"{FHIR};q=nonsense",
        "*/*;q=0",
        pytest.param("text/html, " * 2000 + FHIR, id="FHIR behind thousands of others"),
    ],
)
def test_what_there_is_not_is_refused(accept):
    with pytest.raises(NotAcceptable, match=re.escape(FHIR)):
        prefers_fhir([accept])


def test_what_there_is_not_is_refused_before_the_picture_is_read(service, problem):
    answer = problem(service.diagnose(b"no picture", headers={"Accept": "text/html"}), 406)
    assert answer["type"] == "urn:dermfed:problem:not-acceptable"


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ("_format=json", 200, FHIR),
        ("_format=application/fhir%2Bjson;%20fhirVersion=4.0", 200, FHIR),
        ("_format=application/fhir+json", 200, FHIR),
        ("_format=", 200, "application/json"),
        ("_format=application/fhir%2Bxml", 406, "application/problem+json"),
        ("_format=application/fhir%2Bjson;%20fhirVersion=5.0", 406, "application/problem+json"),
    ],
)
def test_the_parameter_of_fhir_goes_before_the_header(service, picture, query, status, kind):
    answer = service.client.post(
        f"/v1/diagnoses?{query}",
        files={"image": ("lesion.jpg", picture(), "image/jpeg")},
        headers={"Accept": "application/json"},
    )
    assert (answer.status_code, answer.headers["content-type"]) == (status, kind)


def test_the_service_answers_the_same_in_fhir(service):
    own = service.diagnose(params={"skin_tone": "V"})
    answer = service.diagnose(params={"skin_tone": "V"}, headers={"Accept": FHIR})
    assert (own.headers["content-type"], answer.headers["content-type"]) == ("application/json", FHIR)
    bundle = answer.json()
    check(bundle)
    shares = [one["valueQuantity"]["value"] for one in observed(bundle, "class-probability")]
    assert shares == [one["probability"] for one in own.json()["findings"]]
    (device,) = resources(bundle, "Device")
    assert device["identifier"][0]["value"] == own.json()["model"]["digest"]
    assert report_of(bundle)["identifier"][0]["value"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("sent", "code", "kind"),
    [
        ({"content": b"no picture"}, "structure", "not-an-image"),
        ({"params": {"skin_tone": "9"}}, "value", "invalid-parameter"),
        ({"kind": "text/plain"}, "not-supported", "unsupported-media-type"),
        ({"params": {"model": "none"}}, "not-found", "not-found"),
    ],
)
def test_an_error_is_an_outcome_in_fhir_and_else_a_problem(service, problem, sent, code, kind):
    answer = service.diagnose(**sent, headers={"Accept": FHIR})
    plain = problem(service.diagnose(**sent), answer.status_code)
    assert answer.headers["content-type"] == FHIR
    OperationOutcome.model_validate(answer.json())
    (issue,) = answer.json()["issue"]
    assert (issue["code"], issue["diagnostics"]) == (code, plain["detail"])
    assert issue["details"]["coding"] == [{"system": "urn:dermfed:problem", "code": kind}]


def test_a_wrong_method_is_an_outcome_too_and_another_path_stays_a_problem(service, problem):
    answer = service.client.get("/v1/diagnoses", headers={"Accept": FHIR})
    assert (answer.status_code, answer.json()["resourceType"]) == (405, "OperationOutcome")
    assert answer.headers["allow"] == "POST"
    problem(service.client.get("/v1/nothing", headers={"Accept": FHIR}), 404)
