import re
from contextlib import nullcontext

import pytest

from serving.http.app import build_app
from serving.http.docs_page import docs_page, kind
from serving.http.form_fields import ONE_OF_THESE, OPTIONAL, form_fields
from serving.http.openapi import describe
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
        ({"enum": ["a", "b"], "type": "string"}, "a | b"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({}, "any"),
    ],
)
def test_a_fields_kind_in_a_word(schema, said):
    assert kind(schema) == said


def test_the_forms_fields_are_listed_with_what_they_take_and_whether_they_are_needed():
    listed = {one.name: one for one in form_fields(API, API["paths"]["/v1/diagnoses"]["post"])}
    close_up, tone = listed["close_up"], listed["skin_tone_scale"]
    assert (close_up.kind, close_up.required) == ("1 to 8 files", ONE_OF_THESE)
    assert close_up.allowed[:2] == ["image/jpeg", "image/png"]
    assert (tone.allowed, tone.required) == (["fitzpatrick", "monk", "milk10k", "ddi"], OPTIONAL)
    assert listed["top"].kind == "whole number from 1 to 1000"
    assert all(one.meaning for one in listed.values())
    assert form_fields(API, API["paths"]["/livez"]["get"]) == []


def test_a_host_that_somebody_made_up_is_escaped(service):
    for host in ('"><script>', "a'b", "[", "a:b:c"):
        answer = service.client.get("/docs", headers={"Host": host})
        assert answer.status_code == 200
        assert "<script" not in answer.text
    assert "<script" not in docs_page(API, "<script>")
