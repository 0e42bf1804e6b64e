"""Every example of the description, against the schema that it stands beside."""

import json

import jsonschema_rs
import pytest

from serving.fhir.negotiation import FHIR
from serving.http.openapi import describe
from serving.inference.reasons import CODES
from serving.protocol.problems import MEDIA_TYPE
from serving.settings import ServeSettings

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


@pytest.mark.parametrize("where", ALL)
def test_it_has_examples_and_they_are_valid(where):
    content = ALL[where]
    assert examples(content)
    for value in examples(content).values():
        jsonschema_rs.validate({**content["schema"], "components": API["components"]}, value)
        assert json.loads(json.dumps(value)) == value


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
