"""Every example of the description, against the schema that it stands beside."""

import json
import re
import shlex
import shutil
import subprocess
import urllib.parse

import jsonschema_rs
import pytest

from serving.fhir.negotiation import FHIR
from serving.http.openapi import describe
from serving.http.upload import FORM
from serving.inference.reasons import CODES
from serving.protocol.parameters import read_case, read_parameters
from serving.protocol.problems import MEDIA_TYPE
from serving.settings import ServeSettings
from tests.case_bundles import case_bundle
from tests.dicom_files import dicom_file, noise
from tests.serving.conftest import Places, encode, paint, release, running

API = describe(ServeSettings())
OPERATIONS = {f"{verb} {path}": said for path, verbs in API["paths"].items() for verb, said in verbs.items()}


def contents():
    """Every answer of the interface that is a document, with a name of where it is."""
    for operation, said in OPERATIONS.items():
        for status, response in said["responses"].items():
            for kind, content in response["content"].items():
                if kind in ("application/json", MEDIA_TYPE, FHIR):
                    yield f"{operation} {status} {kind}", content


def examples(content):
    named = content.get("examples", {})
    alone = {"": {"value": content["example"]}} if "example" in content else {}
    return {name: one["value"] for name, one in {**named, **alone}.items()}


DESCRIBING_ITSELF = "get /openapi.json 200 application/json"
ALL = {where: content for where, content in contents() if where != DESCRIBING_ITSELF}


def refuses(schema, value) -> bool:
    return not jsonschema_rs.validator_for({**schema, "components": API["components"]}).is_valid(value)


@pytest.mark.parametrize("where", ALL)
def test_it_has_examples_and_they_are_valid(where):
    content = ALL[where]
    assert examples(content)
    for value in examples(content).values():
        jsonschema_rs.validate({**content["schema"], "components": API["components"]}, value)
        assert json.loads(json.dumps(value)) == value


def test_a_validator_that_says_yes_to_everything_would_be_noticed():
    content = ALL["post /v1/diagnoses 200 application/json"]
    value = examples(content)["refer"]
    assert refuses(content["schema"], {**value, "decision": "perhaps"})
    assert refuses(content["schema"], {name: part for name, part in value.items() if name != "reasons"})
    assert refuses(content["schema"], {**value, "new": 1})


def test_there_is_a_diagnosis_of_each_decision_and_its_reasons_have_known_codes():
    shown = examples(ALL["post /v1/diagnoses 200 application/json"])
    assert {name: one["decision"] for name, one in shown.items()} == {
        **{decision: decision for decision in ("report", "refer", "retake")},
        "case": "refer",
    }
    assert [name for name, one in shown.items() if "inputs" in one] == ["case"]
    for one in shown.values():
        assert {reason["code"] for reason in one["reasons"]} <= set(CODES)
        assert one["reasons"][-1]["code"] == one["model"]["route"]
        assert one["quality"]["acceptable"] == (one["decision"] != "retake")


def test_each_problem_is_of_the_status_that_it_is_shown_for():
    shown = 0
    for where, content in ALL.items():
        if where.endswith(MEDIA_TYPE):
            status = int(re.search(r" (\d{3}) ", where).group(1))
            for name, value in examples(content).items():
                assert value["status"] == status
                assert value["type"].endswith(name)
                shown += 1
    assert shown > 20


def test_whole_requests_send_what_the_description_asks_for():
    operation = OPERATIONS["post /v1/diagnoses"]
    body, dicom, form, case = (shlex.split(sample["source"]) for sample in operation["x-codeSamples"])
    assert body[0] == dicom[0] == form[0] == "curl"
    for one, kind in ((body, "image/jpeg"), (dicom, "application/dicom")):
        assert one[one.index("-H") + 1] == f"Content-Type: {kind}"
        assert kind in operation["requestBody"]["content"]
    sent = urllib.parse.urlsplit(body[-1])
    assert f"post {sent.path}" in OPERATIONS
    assert read_parameters(urllib.parse.parse_qsl(sent.query), {}).skin_tone == "5"
    fields = dict(form[place + 1].split("=", 1) for place, word in enumerate(form) if word == "-F")
    assert fields.pop("image").startswith("@lesion.jpg")
    assert read_parameters([], fields).skin_tone == "5"
    assert form[-1] == case[-1] == body[-1].partition("?")[0]
    sent = dict(case[place + 1].split("=", 1) for place, word in enumerate(case) if word == "-F")
    assert {name for name, value in sent.items() if value.startswith("@")} == {"close_up", "dermoscopic"}
    facts = {name: value for name, value in sent.items() if not value.startswith("@")}
    assert read_case(case_bundle().manifest, [b"", b""], ["close-up", "dermoscopic"], facts).facts == facts


SAMPLES = {one["label"]: one["source"] for one in OPERATIONS["post /v1/diagnoses"]["x-codeSamples"]}


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory):
    """A service with a model of cases, which takes single pictures too."""
    places = Places(tmp_path_factory.mktemp("registry"))
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as service:
        yield service


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("label", SAMPLES)
def test_whole_requests_are_answered(of_cases, tmp_path, label):
    for name in ("lesion.jpg", "close.jpg", "derm.jpg"):
        (tmp_path / name).write_bytes(encode(paint()))
    (tmp_path / "lesion.dcm").write_bytes(dicom_file(noise(24, 32, 3)))
    command = shlex.split(SAMPLES[label].replace("http://localhost:3000", of_cases.url))
    ended = subprocess.run(
        [*command, "--silent", "--show-error"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    answer = json.loads(ended.stdout)
    assert answer["decision"] in ("report", "refer", "retake"), answer
    assert len(answer["inputs"]["pictures"]) == (2 if label == "a case" else 1)


def test_the_form_may_be_what_its_example_is():
    body = OPERATIONS["post /v1/diagnoses"]["requestBody"]["content"][FORM]
    (example,) = examples(body).values()
    schema = {**body["schema"], "components": API["components"]}
    jsonschema_rs.validate(schema, example)
    assert refuses(body["schema"], {**example, "close_up": "a text"})


def test_parameters_may_be_what_their_examples_are():
    given = {
        one["name"]: (one["example"], one["schema"]) for one in OPERATIONS["post /v1/diagnoses"]["parameters"]
    }
    for value, schema in given.values():
        jsonschema_rs.validate(schema, value)
    read = read_parameters([(name, str(value)) for name, (value, _) in given.items()], {})
    assert (read.skin_tone, read.skin_tone_scale, read.model, read.top) == (
        "5",
        "fitzpatrick",
        "skin-lesion",
        3,
    )
