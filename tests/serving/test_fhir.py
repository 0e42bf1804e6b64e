"""A diagnosis as FHIR.

Validated by `fhir.resources`, which has R4B (4.3.0) and no R4 (4.0.1): the resources that are used here
are the same in both. It does not hold codes against value sets; `check` does for those that R4 requires.
"""

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Annotated

import pytest
from fhir.resources.R4B.bundle import Bundle
from fhir.resources.R4B.operationoutcome import OperationOutcome
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from registry.bundle.labels import Coding, Label, short
from serving.fhir.bundle import conclusion, fhir_bundle
from serving.fhir.elements import UNCERTAIN, clean, components, properties
from serving.fhir.negotiation import prefers_fhir
from serving.http.openapi import describe
from serving.protocol.fields import Coded, Fact, Unit, example
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import (
    Answer,
    Conclusion,
    Diagnosis,
    Finding,
    KindMissed,
    MalignancyRisk,
    TriageEvidence,
)
from serving.settings import ServeSettings
from tests.serving.conftest import encode, paint

FHIR = "application/fhir+json"
ICD10 = "http://hl7.org/fhir/sid/icd-10"
SNOMED = "http://snomed.info/sct"
ID = "6809b5ae-ae04-498f-bca7-08193bed3284"
LABELS = (
    Label(
        code="MEL",
        name="Melanoma",
        malignancy="malignant",
        codings=(
            Coding(system=ICD10, version="2019", code="C43.9", display="Malignant melanoma", certain=True),
            Coding(system=SNOMED, code="93655004", display="Malignant melanoma of skin"),
        ),
    ),
    Label(
        code="NV",
        name="Melanocytic naevus",
        malignancy="benign",
        codings=(Coding(system=ICD10, code="D22.9", display="Melanocytic naevus"),),
    ),
    Label(code="ODD", name="Something else"),
)

DECLARED = Parameters("5")


def diagnosis(decision: str = "report", **parts) -> Diagnosis:
    findings = [("MEL", "Melanoma", "malignant", 0.62), ("NV", "Melanocytic naevus", "benign", 0.3)]
    given = {
        "id": ID,
        "triage": None,
        "triage_evidence": None,
        "conclusion": None,
        "created": datetime(2026, 1, 1, tzinfo=UTC),
        "decision": decision,
        "reasons": [{"code": "confident", "text": "It is."}, {"code": "declared", "text": "V was declared."}],
        "model": {
            "name": "skin-lesion",
            "version": 3,
            "subgroup": "dark",
            "digest": "sha256:" + "a" * 64,
            "route": "declared",
        },
        "findings": [
            example(Finding, code=code, name=name, malignancy=kind, probability=p, coding={})
            for code, name, kind, p in findings
        ],
        "prediction_set": {
            "codes": ["MEL", "NV"],
            "coverage": 0.9,
            "guarantee": "subgroup",
            "calibration_n": 412,
        },
        "malignancy": MalignancyRisk(probability=0.62),
        "quality": {"acceptable": True, "issues": []},
        "warnings": ["Mind the < & >."],
    }
    return example(Diagnosis, **{**given, **parts})


def translated(one: Diagnosis | None = None, labels=LABELS, parameters=DECLARED):
    """The bundle, once it has been found valid, with its resources by type."""
    bundle = fhir_bundle(one or diagnosis(), labels, parameters)
    check(bundle)
    return bundle


def resources(bundle, kind):
    return [one["resource"] for one in bundle["entry"] if one["resource"]["resourceType"] == kind]


def observed(bundle, code):
    return [one for one in resources(bundle, "Observation") if one["code"]["coding"][0]["code"] == code]


def parts(observation):
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


# Elements whose value set R4 requires, with the one code of it that is used.
REQUIRED = {
    "DiagnosticReport.status": "partial",
    "DiagnosticReport.text.status": "generated",
    "Observation.status": "preliminary",
    "Media.status": "completed",
    "Device.status": "active",
    "Device.deviceName.type": "model-name",
    "Provenance.entity.role": "source",
}


def reached(part, path):
    """The values at a path, lists seen through."""
    if isinstance(part, list):
        for one in part:
            yield from reached(one, path)
    elif path:
        yield from reached(part[path[0]], path[1:])
    else:
        yield part


def check(bundle) -> None:
    """What R4 asks of a bundle like this."""
    Bundle.model_validate_json(json.dumps(bundle))
    assert bundle["type"] == "collection"
    for name, allowed in REQUIRED.items():
        kind, _, path = name.partition(".")
        for resource in resources(bundle, kind):
            assert set(reached(resource, path.split("."))) == {allowed}, name
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
    assert len(origin["target"]) == len(observations) + 1
    assert not list(every(bundle, "subject")), "nobody is made up"
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


def test_the_example_of_the_description_is_one():
    said = describe(ServeSettings())["paths"]["/v1/diagnoses"]["post"]["responses"]
    check(said["200"]["content"][FHIR]["example"])
    for status, answer in said.items():
        if status != "200":
            OperationOutcome.model_validate(answer["content"][FHIR]["example"])


def test_an_empty_set_does_not_read_as_if_all_were_ruled_out():
    none = {"codes": [], "coverage": 0.9, "guarantee": "global", "calibration_n": 412}
    said = conclusion(diagnosis(prediction_set=none), LABELS)
    assert said[1] == "No class is likely enough for the prediction set."
    assert "ruled out" not in " ".join(said)


@pytest.mark.parametrize(("level", "code", "coded"), [("diagnosis", "NV", ["NV"]), ("group", "other", [])])
def test_a_report_concludes_with_the_code_of_what_is_concluded(level, code, coded):
    """A group of diagnoses has no code of its own, and the first finding is not what is concluded."""
    sure = example(Conclusion, level=level, code=code, name="naevus or so")
    (report,) = resources(translated(diagnosis(conclusion=sure)), "DiagnosticReport")
    assert [one["coding"][0]["code"] for one in report.get("conclusionCode", [])] == coded
    assert report["conclusion"].startswith("Concluded: naevus or so (71 %).")


def test_a_report_concludes_with_the_codes_of_the_first_finding():
    bundle = translated()
    (report,) = resources(bundle, "DiagnosticReport")
    assert report["conclusionCode"] == [
        {
            "coding": [
                {"system": "urn:dermfed:class", "code": "MEL", "display": "Melanoma"},
                {"system": ICD10, "version": "2019", "code": "C43.9", "display": "Malignant melanoma"},
                {
                    "extension": [{"url": UNCERTAIN, "valueBoolean": True}],
                    "system": SNOMED,
                    "code": "93655004",
                    "display": "Malignant melanoma of skin",
                },
            ],
            "text": "Melanoma",
        }
    ]
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
        (
            "urgent",
            "Urgent: a clinician has to see this lesion before others. Not malignant: at most 10 of",
        ),
        ("routine", "Routine: a clinician looks. Melanoma: at most 8 of 100 are ruled out"),
        (
            "ruled-out",
            "Ruled out: of 100 lesions of each kind of malignancy at most 8 are missed. Melanoma: at",
        ),
    ],
)
def test_triage_is_the_first_observation_and_the_first_sentence(level, said):
    bundle = translated(diagnosis("refer", triage=level, triage_evidence=example(TriageEvidence)))
    (report,) = resources(bundle, "DiagnosticReport")
    assert report["conclusion"].startswith(said)
    first = resources(bundle, "Observation")[0]
    assert first["valueCodeableConcept"]["coding"][0]["code"] == level
    told = dict(parts(first))
    assert told["triage-missed"]["valueRatio"] == {"numerator": {"value": 4}, "denominator": {"value": 113}}
    assert told["triage-false-alarms"]["valueRatio"]["denominator"] == {"value": 512}
    for name, high in (("triage-missed-limit", 0.08), ("triage-false-alarms-limit", 0.097)):
        assert told[name]["valueQuantity"]["value"] == high
        assert told[name]["referenceRange"][0]["high"]["value"] == 0.1
    assert told["triage-guarantee"]["valueCodeableConcept"]["text"] == "subgroup"
    assert told["triage-basis"]["valueCodeableConcept"]["text"] == "split"
    assert told["triage-confidence"]["valueQuantity"]["value"] == 0.95


def test_without_triage_nothing_says_it():
    assert observed(translated(), "triage") == []


@pytest.mark.parametrize(
    ("decision", "said"),
    [("refer", "A clinician has to judge the lesion."), ("retake", "The picture has to be taken again.")],
)
def test_where_nothing_is_reported_nothing_is_concluded(decision, said):
    quality = {"acceptable": decision == "refer", "issues": [] if decision == "refer" else ["Come nearer."]}
    bundle = translated(diagnosis(decision, quality=quality))
    (report,) = resources(bundle, "DiagnosticReport")
    assert "conclusionCode" not in report
    assert report["conclusion"].startswith(f"No result is reported. {said}")
    (decided,) = observed(bundle, "decision")
    assert decided["valueCodeableConcept"]["coding"][0]["code"] == decision
    doubted = [decided, *observed(bundle, "class-probability"), *observed(bundle, "malignancy-probability")]
    assert [one["interpretation"][0]["coding"][0]["code"] for one in doubted] == ["IND"] * 4
    (seen,) = observed(bundle, "picture-quality")
    assert seen["valueBoolean"] is quality["acceptable"]
    assert [one["text"] for one in seen.get("note", [])] == quality["issues"]


def test_the_set_is_whole_with_its_promise_and_names_what_is_not_among_the_findings():
    chosen = {"codes": ["MEL", "ODD"], "coverage": 0.9, "guarantee": "subgroup", "calibration_n": 412}
    (found,) = observed(translated(diagnosis(prediction_set=chosen)), "prediction-set")
    classes = [one["valueCodeableConcept"]["text"] for name, one in parts(found) if name == "class"]
    assert classes == ["Melanoma", "Something else"]
    promised = dict(parts(found))
    assert promised["coverage"]["valueQuantity"]["value"] == 0.9
    assert promised["guarantee"]["valueCodeableConcept"]["text"] == "subgroup"
    assert promised["calibration-lesions"]["valueInteger"] == 412


def test_malignancy_has_its_reason_to_be_absent():
    bundle = translated(diagnosis(malignancy={"probability": None}))
    (risk,) = observed(bundle, "malignancy-probability")
    assert risk["dataAbsentReason"]["coding"][0]["code"] == "not-applicable"
    assert "valueQuantity" not in risk


def test_the_tone_is_told_as_it_was_declared():
    (decided,) = observed(translated(parameters=Parameters("7", "monk")), "decision")
    tone = dict(parts(decided))["declared-skin-tone"]
    assert tone["valueString"] == "7 (monk)"
    (decided,) = observed(translated(parameters=Parameters()), "decision")
    tone = dict(parts(decided))["declared-skin-tone"]
    assert tone["dataAbsentReason"]["coding"][0]["code"] == "unknown"
    assert "valueString" not in tone
    reasons = [one["valueCodeableConcept"] for name, one in parts(decided) if name == "reason"]
    assert [one["coding"][0]["code"] for one in reasons] == ["confident", "declared"]
    assert [one["text"] for one in reasons] == ["It is.", "V was declared."]


def test_the_model_is_a_device_and_the_origin_says_so():
    bundle = translated()
    (device,) = resources(bundle, "Device")
    assert device["identifier"] == [{"system": "urn:dermfed:bundle", "value": "sha256:" + "a" * 64}]
    assert device["version"][0]["value"] == "3"
    assert device["deviceName"] == [{"name": "skin-lesion", "type": "model-name"}]
    address = f"urn:uuid:{device['id']}"
    (origin,) = resources(bundle, "Provenance")
    assert origin["agent"][0]["who"] == {"reference": address}
    assert {one["device"]["reference"] for one in resources(bundle, "Observation")} == {address}
    assert origin["recorded"] == bundle["timestamp"] == "2026-01-01T00:00:00+00:00"


class Toy(Answer):
    """A part with a field of every type that has a component."""

    sharp: Annotated[float | None, Field(description="a share"), Fact(fhir=Coded("sharp", "How sharp"))]
    width: Annotated[
        float, Field(description="a length"), Fact(unit=Unit("mm", "mm"), fhir=Coded("width", "How wide"))
    ] = 2.5
    count: Annotated[int, Field(description="a number"), Fact(fhir=Coded("count", "How many"))] = 7
    clear: Annotated[bool, Field(description="a fact"), Fact(fhir=Coded("clear", "Whether clear"))] = False
    kind: Annotated[str, Field(description="a word"), Fact(fhir=Coded("kind", "Which kind"))] = "plain"
    secret: Annotated[str, Field(description="nothing for FHIR")] = "?"


@pytest.mark.parametrize(
    ("decision", "above", "codes"),
    [
        ("report", True, ["above-working-point", "H"]),
        ("refer", True, ["IND", "above-working-point", "H"]),
        ("report", False, ["below-working-point"]),
    ],
)
def test_a_malignancy_is_interpreted_beside_the_working_point(decision, above, codes):
    told = MalignancyRisk(
        probability=0.62, threshold=0.2, above=above, sensitivity=0.94, specificity=0.61, n=117
    )
    bundle = translated(diagnosis(decision=decision, malignancy=told))
    (risk,) = observed(bundle, "malignancy-probability")
    assert [one["code"] for said in risk["interpretation"] for one in said["coding"]] == codes
    assert risk["referenceRange"][0]["high"]["value"] == 0.2
    assert dict(parts(risk))["sensitivity"]["valueQuantity"]["value"] == 0.94
    assert dict(parts(risk))["specificity"]["valueQuantity"]["value"] == 0.61
    assert dict(parts(risk))["malignant-test-pictures"]["valueInteger"] == 117


def test_a_field_becomes_a_component_by_its_type():
    said = {one["code"]["coding"][0]["code"]: one for one in components(Toy(sharp=None))}
    assert list(said) == ["sharp", "width", "count", "clear", "kind"]
    assert said["sharp"]["dataAbsentReason"]["coding"][0]["code"] == "unknown"
    assert said["width"]["valueQuantity"] == {
        "value": 2.5,
        "unit": "mm",
        "system": "http://unitsofmeasure.org",
        "code": "mm",
    }
    assert (said["count"]["valueInteger"], said["clear"]["valueBoolean"]) == (7, False)
    assert said["kind"]["valueCodeableConcept"]["coding"] == [{"system": "urn:dermfed:kind", "code": "plain"}]
    assert said["count"]["code"]["text"] == "How many"
    (sharp, *_) = components(Toy(sharp=0.5))
    assert sharp["valueQuantity"] == {"value": 0.5}
    assert components(diagnosis().malignancy) == []


def test_a_field_becomes_a_property_by_its_type():
    said = {one["type"]["text"]: one for one in properties(Toy(sharp=None))}
    assert list(said) == ["How wide", "How many", "Whether clear", "Which kind"]
    assert said["How many"]["valueQuantity"] == [{"value": 7}]
    assert said["Whether clear"]["valueCode"] == [{"text": "no"}]
    assert said["Which kind"]["valueCode"] == [{"text": "plain"}]


texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=12)
chances = st.floats(0, 1)
labels = st.lists(
    st.builds(
        Label,
        code=names,
        name=names,
        malignancy=st.sampled_from(["malignant", "premalignant", "benign", "unknown"]),
        codings=st.lists(
            st.builds(
                Coding,
                system=st.sampled_from([ICD10, SNOMED]),
                version=st.none() | texts,
                code=names,
                display=names,
                certain=st.booleans(),
            ),
            max_size=2,
        ).map(tuple),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda label: label.code,
)


CASE = {
    "pictures": ["close-up", "dermoscopic", "unknown"],
    "facts": {"age": "70", "sex": "male", "site": "head_neck", "diameter": " 6 "},
    "pattern": "unknown+close-up+dermoscopic+context",
    "promised": True,
}


def test_a_case_has_its_pictures_its_site_and_the_facts_that_were_sent():
    bundle = translated(diagnosis(inputs=CASE, would_help=[]))
    pictures = resources(bundle, "Media")
    assert [one["view"]["text"] for one in pictures] == ["close-up", "dermoscopic", "unknown"]
    assert {one["bodySite"]["text"] for one in pictures} == {"head neck"}
    (report,) = resources(bundle, "DiagnosticReport")
    links = [f"urn:uuid:{one['id']}" for one in pictures]
    assert [one["link"]["reference"] for one in report["media"]] == links
    (origin,) = resources(bundle, "Provenance")
    assert [one["what"]["reference"] for one in origin["entity"]] == links
    (decision,) = observed(bundle, "decision")
    assert decision["bodySite"]["coding"] == [{"system": "urn:dermfed:site", "code": "head_neck"}]
    told = dict(parts(decision))
    assert told["pattern"]["valueCodeableConcept"]["text"] == CASE["pattern"]
    assert told["promised"]["valueBoolean"] is True
    (age,), (sex,), (other,) = (observed(bundle, code) for code in ("30525-0", "46098-0", "fact"))
    assert age["valueQuantity"] == {
        "value": 70.0,
        "unit": "years",
        "system": "http://unitsofmeasure.org",
        "code": "a",
    }
    assert sex["valueCodeableConcept"]["coding"][0] == {
        "system": "http://hl7.org/fhir/administrative-gender",
        "code": "male",
    }
    assert (other["code"]["text"], other["valueString"]) == ("diameter", "6")
    assert not {"device", "subject"} & set(age)


@given(data=st.data(), labels=labels, decision=st.sampled_from(["report", "refer", "retake"]))
@settings(max_examples=25)
def test_every_diagnosis_is_a_valid_bundle(data, labels, decision):
    listed = labels[: data.draw(st.integers(1, len(labels)))]
    triaged = data.draw(st.sampled_from(["urgent", "routine", "ruled-out", None]))
    kinds = st.builds(
        KindMissed, kind=names, n=st.integers(0, 10**6), missed=st.integers(0, 10), high=chances
    )
    missed = {"limit": data.draw(chances), "kinds": data.draw(st.lists(kinds, max_size=3))}
    one = diagnosis(
        decision,
        triage=triaged,
        triage_evidence=triaged and example(TriageEvidence, missed=missed),
        created=data.draw(st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))),
        model={
            "name": data.draw(names),
            "version": data.draw(st.integers(1, 10**6)),
            "subgroup": data.draw(names),
            "digest": "sha256:" + "0" * 64,
            "route": data.draw(st.sampled_from(["declared", "unknown-tone", "other-scale"])),
        },
        reasons=[{"code": data.draw(names), "text": data.draw(texts)}],
        findings=[
            {
                "code": label.code,
                "name": label.name,
                "malignancy": label.malignancy,
                "probability": data.draw(chances),
                "coding": short(label.codings),
            }
            for label in listed
        ],
        prediction_set={
            "codes": data.draw(st.lists(st.sampled_from([label.code for label in labels]), unique=True)),
            "coverage": data.draw(chances),
            "guarantee": data.draw(st.sampled_from(["subgroup", "global", "none"])),
            "calibration_n": data.draw(st.integers(0, 10**6)),
        },
        malignancy={"probability": data.draw(st.none() | chances)},
        quality={"acceptable": data.draw(st.booleans()), "issues": data.draw(st.lists(texts, max_size=2))},
        warnings=data.draw(st.lists(texts, max_size=3)),
        inputs=data.draw(
            st.none()
            | st.just(CASE)
            | st.fixed_dictionaries(
                {
                    "pictures": st.lists(st.sampled_from(CASE["pictures"]), min_size=1, max_size=3),
                    "facts": st.dictionaries(st.sampled_from(["site", "weight", "phototype"]), texts),
                    "pattern": st.just("close-up"),
                    "promised": st.booleans(),
                }
            )
        ),
    )
    tone = data.draw(st.sampled_from([Parameters(), Parameters("5"), Parameters("10", "monk")]))
    bundle = translated(one, labels, tone)
    assert ("conclusionCode" in resources(bundle, "DiagnosticReport")[0]) == (decision == "report")


@given(text=st.text())
def test_a_cleaned_text_is_one_that_fhir_allows(text):
    assert re.fullmatch(r"([^\s\x00-\x1f\x7f]+( [^\s\x00-\x1f\x7f]+)*)?", clean(text))


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], False),
        (["*/*"], False),
        (["application/json"], False),
        ([FHIR], True),
        ([f"{FHIR}; fhirVersion=4.0"], True),
        ([f"{FHIR}; fhirVersion=5.0, application/json;q=0.1"], False),
        ([f"{FHIR};q=0.5, application/json;q=0.9"], False),
        ([f"{FHIR}, */*"], True),
        ([f"{FHIR};q=0.8, */*"], False),
        ([f"{FHIR};q=0.8, */*;q=0.1, application/*"], False),
        ([" "], False),
    ],
)
def test_fhir_is_for_those_who_ask_for_it(accept, chosen):
    assert prefers_fhir(accept) is chosen


NOTHING = ["application/fhir+xml", f"{FHIR}; fhirVersion=5.0", f"{FHIR}; fhirVersion=4.3", "text/html"]
NOTHING += [f"{FHIR};q=0, application/xml", f"{FHIR};q=nonsense", "text/html, " * 2000 + FHIR, "*/*;q=0"]


@pytest.mark.parametrize("accept", NOTHING)
def test_what_there_is_not_is_refused_before_the_picture_is_looked_at(service, problem, accept):
    answer = problem(service.diagnose(b"no picture", headers={"Accept": accept}), 406)
    assert answer["type"] == "urn:dermfed:problem:not-acceptable"
    assert FHIR in answer["detail"]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("_format=json", FHIR),
        ("_format=application/fhir%2Bjson", FHIR),
        ("_format=application/fhir+json", FHIR),
        ("_format=application/fhir%2Bjson;%20fhirVersion=4.0", FHIR),
        ("_format=", "application/json"),
        ("_format=xml", None),
        ("_format=application/fhir%2Bxml", None),
        ("_format=application/fhir%2Bjson;%20fhirVersion=5.0", None),
    ],
)
def test_the_parameter_of_fhir_goes_before_the_header(service, problem, query, kind):
    answer = service.client.post(
        f"/v1/diagnoses?{query}",
        files={"image": ("lesion.jpg", encode(paint()), "image/jpeg")},
        headers={"Accept": "application/json"},
    )
    if kind is None:
        assert "`_format`" in problem(answer, 406)["detail"]
    else:
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


def test_the_service_answers_either(service, released):
    own = service.diagnose(params={"skin_tone": "V"})
    assert own.headers["content-type"] == "application/json"
    answer = service.diagnose(params={"skin_tone": "V"}, headers={"Accept": FHIR})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == FHIR
    bundle = answer.json()
    check(bundle)
    found = observed(bundle, "class-probability")
    assert [one["valueQuantity"]["value"] for one in found] == [
        one["probability"] for one in own.json()["findings"]
    ]
    (device,) = resources(bundle, "Device")
    assert device["identifier"][0]["value"] == own.json()["model"]["digest"]
    (report,) = resources(bundle, "DiagnosticReport")
    assert report["identifier"][0]["value"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("sent", "code", "kind"),
    [
        ({"content": b"no picture"}, "structure", "not-an-image"),
        ({"params": {"skin_tone": "9"}}, "value", "invalid-parameter"),
        ({"kind": "text/plain"}, "not-supported", "unsupported-media-type"),
        ({"params": {"model": "none"}}, "not-found", "not-found"),
    ],
)
def test_an_error_is_an_outcome_for_those_who_ask_for_fhir_and_a_problem_for_others(
    service, problem, sent, code, kind
):
    answer = service.diagnose(**sent, headers={"Accept": FHIR})
    plain = problem(service.diagnose(**sent), answer.status_code)
    assert answer.headers["content-type"] == FHIR
    OperationOutcome.model_validate(answer.json())
    (issue,) = answer.json()["issue"]
    assert (issue["code"], issue["diagnostics"]) == (code, plain["detail"])
    assert issue["details"]["coding"] == [{"system": "urn:dermfed:problem", "code": kind}]


def test_a_method_that_is_not_there_is_an_outcome_too_and_elsewhere_stays_a_problem(service, problem):
    answer = service.client.get("/v1/diagnoses", headers={"Accept": FHIR})
    assert (answer.status_code, answer.json()["resourceType"]) == (405, "OperationOutcome")
    assert answer.headers["allow"] == "POST"
    problem(service.client.get("/v1/nothing", headers={"Accept": FHIR}), 404)
