import json
import re
from contextlib import nullcontext

import jsonschema_rs
import pytest

from serving.fhir.negotiation import FHIR
from serving.http.app import build_app
from serving.http.openapi import ANY, KINDS_OF_PROBLEMS, describe, docs_page, kind
from serving.http.openapi import OPERATIONS as TABLE
from serving.inference.reasons import CODES
from serving.metrics import OTHER
from serving.protocol.parameters import DEFAULT_SCALE, NAMES
from serving.protocol.problems import MEDIA_TYPE
from serving.settings import ServeSettings

API = describe(ServeSettings())
VERBS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
OPERATIONS = [(path, verb, said) for path, verbs in API["paths"].items() for verb, said in verbs.items()]


def references(part):
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(part, list):
        for one in part:
            yield from references(one)


def test_every_path_is_described_and_every_described_path_is_there():
    routed = {
        (route.path, method)
        for route in build_app(ServeSettings(), nullcontext).routes
        if route.include_in_schema  # pages are for people
        for method in route.methods
    }
    described = {(path, verb.upper()) for path, verb, _ in OPERATIONS}
    assert described == {(path, method) for path, method in routed if method != "HEAD"}
    assert OTHER not in API["paths"]


def test_it_is_openapi():
    assert re.fullmatch(r"3\.1\.\d+", API["openapi"])
    assert API["info"]["title"]
    assert API["info"]["version"]
    found = list(references(API))
    assert len(found) > 10
    for reference in found:
        part = API
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
        assert isinstance(part, dict)
    named = [said["operationId"] for _, _, said in OPERATIONS]
    assert len(set(named)) == len(named)
    for path, verb, said in OPERATIONS:
        assert verb in VERBS
        assert said["summary"]
        placed = {one["name"] for one in said.get("parameters", []) if one["in"] == "path"}
        assert placed == set(re.findall(r"\{(\w+)\}", path))
        assert all(one["required"] for one in said.get("parameters", []) if one["in"] == "path")
        for status, response in said["responses"].items():
            assert re.fullmatch(r"[2345]\d\d", status)
            assert response["description"]
            assert (MEDIA_TYPE in response["content"]) == (status[0] != "2")
        for needed in said.get("security", []):
            assert set(needed) <= set(API["components"]["securitySchemes"])


def test_no_parameter_has_a_default_that_a_generated_client_would_send_beside_another_value():
    form = API["components"]["schemas"]["DiagnosisForm"]["properties"]
    query = {one["name"]: one["schema"] for one in API["paths"]["/v1/diagnoses"]["post"]["parameters"]}
    assert not [name for place in (form, query) for name, schema in place.items() if "default" in schema]
    said = API["paths"]["/v1/diagnoses"]["post"]["parameters"][NAMES.index("skin_tone_scale")]
    assert f"{DEFAULT_SCALE} where none is named" in said["description"]


def test_the_page_shows_every_path_field_and_parameter_and_loads_nothing(service):
    answer = service.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for path in API["paths"]:
        assert path in answer.text
    for name, schema in API["components"]["schemas"].items():
        assert f'id="{name}"' in answer.text
        assert all(f"<code>{field}</code>" in answer.text for field in schema["properties"])
    assert all(f"<code>{name}</code>" in answer.text for name in NAMES)
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", answer.text)
    assert "<script" not in answer.text
    assert "url(" not in answer.text
    for target in re.findall(r'href="#(\w+)"', answer.text):
        assert f'id="{target}"' in answer.text


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
def test_a_fields_kind_in_a_word(schema, said):
    assert kind(schema) == said


def test_a_host_that_somebody_made_up_is_escaped(service):
    for host in ('"><script>', "a'b", "[", "a:b:c"):
        answer = service.client.get("/docs", headers={"Host": host})
        assert answer.status_code == 200
        assert "<script" not in answer.text
    assert "<script" not in docs_page(API, "<script>")


def test_it_has_what_generators_and_gateways_ask_for():
    assert API["servers"] == [{"url": "/"}]
    assert describe(ServeSettings(prefix="/derm"))["servers"] == [{"url": "/derm"}]
    assert API["info"]["license"]["identifier"] == "Apache-2.0"
    tags = {one["name"] for one in API["tags"]}
    assert {tag for _, _, said in OPERATIONS for tag in said["tags"]} == tags
    bodies = API["paths"]["/v1/diagnoses"]["post"]["requestBody"]["content"]
    assert next(iter(bodies)) == "multipart/form-data"
    form = API["components"]["schemas"]["DiagnosisForm"]["properties"]
    assert form["close_up"]["type"] == "array"
    assert form["skin_tone_scale"]["enum"] == ["fitzpatrick", "monk", "milk10k", "ddi", ""]


def test_every_field_says_what_it_is():
    for name, schema in API["components"]["schemas"].items():
        for field, said in schema["properties"].items():
            named = said.get("description") or name in ("FhirBundle", "OperationOutcome")
            ours = name not in ("CaseInput", "CategoryFact", "NumberFact", "Coding")  # of the bundle's room
            assert named or not ours, f"{name}.{field}"


def test_every_problem_is_one_that_some_request_is_answered():
    described = {name for row in TABLE for name in f"{row.problems} {ANY}".split()}
    assert set(KINDS_OF_PROBLEMS) - described == {"caller-gone"}  # for the log alone


def contents():
    """Every answer of the interface that is a document, with a name of where it is."""
    for path, verb, said in OPERATIONS:
        for status, response in said["responses"].items():
            for media_type, content in response["content"].items():
                if media_type in ("application/json", MEDIA_TYPE, FHIR) and path != "/openapi.json":
                    yield f"{verb} {path} {status} {media_type}", content
    for path, verb, said in OPERATIONS:
        body = said.get("requestBody", {}).get("content", {}).get("application/json")
        if body:
            yield f"{verb} {path} body", body


ALL = dict(contents())


@pytest.mark.parametrize("where", ALL)
def test_it_has_examples_and_they_are_valid(where):
    content = ALL[where]
    values = [one["value"] for one in content.get("examples", {}).values()]
    values += [content["example"]] if "example" in content else []
    assert values
    for value in values:
        jsonschema_rs.validate({**content["schema"], "components": API["components"]}, value)
        assert json.loads(json.dumps(value)) == value


def test_the_examples_of_each_field_are_valid():
    seen = 0
    for schema in API["components"]["schemas"].values():
        for field in schema["properties"].values():
            for value in field.get("examples", ()):
                jsonschema_rs.validate({**field, "components": API["components"]}, value)
                seen += 1
    assert seen > 100


def test_the_example_of_a_diagnosis_could_be_one():
    shown = ALL["post /v1/diagnoses 200 application/json"]["example"]
    assert {reason["code"] for reason in shown["reasons"]} <= set(CODES)
    assert shown["reasons"][-1]["code"] == shown["model"]["route"]
    assert (shown["decision"], shown["quality"]["acceptable"]) == ("report", True)
    assert shown["conclusion"]["code"] == shown["findings"][0]["code"]
    assert shown["conclusion"]["probability"] == shown["findings"][0]["probability"]
