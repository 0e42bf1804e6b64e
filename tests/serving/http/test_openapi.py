import re
from contextlib import nullcontext

import jsonschema_rs
import pytest

from serving.http.app import build_app
from serving.http.openapi import ANY, KINDS_OF_PROBLEMS, describe, docs_page, kind
from serving.http.openapi import OPERATIONS as TABLE
from serving.inference.reasons import CODES
from serving.metrics import OTHER
from serving.protocol.negotiation import FHIR
from serving.protocol.parameters import DEFAULT_SCALE, NAMES
from serving.protocol.problems import MEDIA_TYPE
from serving.settings import ServeSettings

KEEPING = ServeSettings(outcomes_url="sqlite:///outcomes.db")
API = describe(KEEPING)
SCHEMAS = API["components"]["schemas"]
OPERATIONS = {
    f"{verb.upper()} {path}": operation
    for path, verbs in API["paths"].items()
    for verb, operation in verbs.items()
}
DIAGNOSE = OPERATIONS["POST /v1/diagnoses"]


def test_every_path_is_described_and_every_described_path_is_there():
    routed = {
        f"{method} {route.path}"
        for route in build_app(ServeSettings(), nullcontext).routes
        if route.include_in_schema  # pages are for people
        for method in route.methods
    }
    assert set(OPERATIONS) == {name for name in routed if not name.startswith("HEAD ")}
    assert OTHER not in API["paths"]
    assert set(API["paths"]) - set(describe(ServeSettings())["paths"]) == {"/v1/diagnoses/{id}/outcome"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_what_generators_ask_for(name):
    operation = OPERATIONS[name]
    assert operation["summary"]
    assert set(operation["tags"]) <= {one["name"] for one in API["tags"]}
    placed = [one for one in operation.get("parameters", []) if one["in"] == "path"]
    assert {one["name"] for one in placed if one["required"]} == set(re.findall(r"\{(\w+)\}", name))
    for status, response in operation["responses"].items():
        assert response["description"]
        assert (MEDIA_TYPE in response["content"]) == (status[0] != "2")
    for needed in operation.get("security", []):
        assert set(needed) <= set(API["components"]["securitySchemes"])


def test_it_has_what_generators_and_gateways_ask_for():
    assert API["openapi"].startswith("3.1.")
    assert API["servers"] == [{"url": "/"}]
    assert API["info"]["license"]["identifier"] == "Apache-2.0"
    assert len({operation["operationId"] for operation in OPERATIONS.values()}) == len(OPERATIONS)
    assert next(iter(DIAGNOSE["requestBody"]["content"])) == "multipart/form-data"
    form = SCHEMAS["DiagnosisForm"]["properties"]
    assert form["close_up"]["type"] == "array"
    assert form["skin_tone_scale"]["enum"] == ["fitzpatrick", "monk", "milk10k", "ddi", ""]


def test_no_parameter_has_a_default_that_a_generated_client_would_send_with_another_value():
    query = {one["name"]: one["schema"] for one in DIAGNOSE["parameters"]}
    places = (SCHEMAS["DiagnosisForm"]["properties"], query)
    assert not [name for place in places for name, schema in place.items() if "default" in schema]
    scale = DIAGNOSE["parameters"][NAMES.index("skin_tone_scale")]
    assert f"{DEFAULT_SCALE} where none is named" in scale["description"]


# Schemas of the registry, or of FHIR, say elsewhere what their fields are.
FOREIGN = ("CaseInput", "CategoryFact", "NumberFact", "Coding", "FhirBundle", "OperationOutcome")


@pytest.mark.parametrize("name", sorted(set(SCHEMAS) - set(FOREIGN)))
def test_every_field_has_a_description(name):
    for field, said in SCHEMAS[name]["properties"].items():
        assert re.fullmatch(r"\S.*\S", said.get("description", "")), f"{field}: a text on one line"


def test_every_problem_is_one_that_some_request_is_answered():
    described = {name for row in TABLE for name in f"{row.problems} {ANY}".split()}
    assert set(KINDS_OF_PROBLEMS) - described == {"caller-gone"}  # for the log alone


def documents():
    """Every answer and body of the interface that is a document, by where it is."""
    for name, operation in OPERATIONS.items():
        for status, response in operation["responses"].items():
            for media_type, content in response["content"].items():
                if media_type in ("application/json", MEDIA_TYPE, FHIR) and name != "GET /openapi.json":
                    yield f"{name} {status} {media_type}", content
        if body := operation.get("requestBody", {}).get("content", {}).get("application/json"):
            yield f"{name} body", body


DOCUMENTS = dict(documents())


@pytest.mark.parametrize("where", DOCUMENTS)
def test_a_document_has_valid_examples(where):
    content = DOCUMENTS[where]
    examples = [one["value"] for one in content.get("examples", {}).values()]
    examples += [content["example"]] if "example" in content else []
    assert examples
    for one in examples:
        jsonschema_rs.validate({**content["schema"], "components": API["components"]}, one)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_examples_of_each_field_are_valid(name):
    for field in SCHEMAS[name]["properties"].values():
        for one in field.get("examples", ()):
            jsonschema_rs.validate({**field, "components": API["components"]}, one)


def test_the_example_of_a_diagnosis_could_be_one():
    shown = DOCUMENTS["POST /v1/diagnoses 200 application/json"]["example"]
    assert {reason["code"] for reason in shown["reasons"]} <= set(CODES)
    assert shown["reasons"][-1]["code"] == shown["model"]["route"]
    assert (shown["decision"], shown["quality"]["acceptable"]) == ("report", True)
    assert shown["conclusion"]["code"] == shown["findings"][0]["code"]
    assert shown["conclusion"]["probability"] == shown["findings"][0]["probability"]


def test_the_page_shows_every_path_field_and_parameter():
    page = docs_page(API, "http://127.0.0.1:3000")
    assert all(path in page for path in API["paths"])
    assert all(f"<code>{name}</code>" in page for name in NAMES)
    for name, schema in SCHEMAS.items():
        assert f'id="{name}"' in page
        assert all(f"<code>{field}</code>" in page for field in schema["properties"])
    assert all(f'id="{target}"' in page for target in re.findall(r'href="#(\w+)"', page))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "#/components/schemas/Card"}, "Card"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"enum": ["a", "b", ""], "type": "string"}, "a | b"),
        ({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"const": ""}]}, "integer from 1 to 9"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({}, "any"),
    ],
)
def test_the_page_names_the_kind_of_a_field_in_a_word(schema, said):
    assert kind(schema) == said


@pytest.mark.parametrize("host", ['"><script>', "a'b", "[", "a:b:c"])
def test_a_forged_host_is_escaped_on_the_page(service, host):
    answer = service.client.get("/docs", headers={"Host": host})
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "<script" not in docs_page(API, "<script>")
