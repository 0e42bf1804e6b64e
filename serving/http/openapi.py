"""The description of the interface: OpenAPI 3.1, made from the very schemas that answers are built with."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from registry.environment import own_version
from serving.fhir.description import described
from serving.fhir.negotiation import FHIR
from serving.http import asking, examples
from serving.protocol.outcomes import GivenOutcome, OutcomeTaken
from serving.protocol.problems import MEDIA_TYPE as PROBLEM
from serving.protocol.schemas import DISCLAIMER, Card, Diagnosis, Models, ProblemDocument, Readiness
from serving.settings import ServeSettings

_REASONS = {
    "400": "the image or the request cannot be read",
    "401": "an API key is needed, or the one sent is not good",
    "403": "the API key lacks the scope that this needs",
    "404": "no such model, no such diagnosis, or no such path",
    "405": "the path is there, the method is not",
    "409": "another outcome of this diagnosis is known",
    "413": "more bytes or pixels than are accepted, or more time or memory to decode",
    "415": "not a picture's media type, or not the one declared",
    "422": "a parameter cannot be what it is",
    "429": "more requests than the API key or the address may make; Retry-After says when to ask again",
    "503": "no model can answer at the moment, too many wait, the time is over, or the service is ending",
}


def describe(settings: ServeSettings) -> dict[str, Any]:
    """The whole document."""
    models: list[type[BaseModel]] = [Diagnosis, OutcomeTaken, Models, Card, Readiness, ProblemDocument]
    _, schemas = models_json_schema(
        [*((model, "serialization") for model in models), (GivenOutcome, "validation")],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dermfed diagnosis service",
            "version": own_version(),
            "description": "A skin picture in, a calibrated answer or `refer` out. " + DISCLAIMER,
        },
        "paths": {
            "/v1/diagnoses": {"post": _diagnose(settings)},
            "/v1/diagnoses/{id}/outcome": {"post": _outcome()},
            "/v1/models": {
                "get": _read("What is served", "listModels", examples.models(), "401", "403", "429", "503")
            },
            "/v1/models/{name}/card": {"get": _card()},
            "/livez": {"get": _open(_text("Whether the process is alive", "livez"))},
            "/readyz": {
                "get": _open(_read("Whether a model can answer", "readyz", examples.readiness(), "503"))
            },
            "/metrics": {"get": _text("Prometheus metrics", "metrics", "401", "403", "429", "503")},
            "/openapi.json": {"get": _open(_page("This description", "openapi", "application/json"))},
            "/docs": {"get": _open(_page("This description as a page", "docs", "text/html"))},
        },
        "components": {
            "schemas": {**schemas["$defs"], asking.FORM_SCHEMA: asking.form(settings.max_bytes)},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _diagnose(settings: ServeSettings) -> dict[str, Any]:
    return {
        "operationId": "diagnose",
        "summary": "Diagnose one lesion",
        **asking.described(settings.max_bytes),
        "responses": {
            "200": _diagnosis(),
            **_problems("400", "401", "403", "404", "413", "415", "422", "429", "503"),
        },
    }


def _outcome() -> dict[str, Any]:
    return {
        **_read(
            "Say what became of the patient",
            "giveOutcome",
            examples.TAKEN,
            *("400", "401", "403", "404", "409", "413", "415", "422", "429", "503"),
        ),
        "description": "For diagnoses that this service keeps, and this key has asked for. The same again "
        "changes nothing; another outcome has to say that it corrects the one before.",
        "parameters": [
            {
                "name": "id",
                "in": "path",
                "required": True,
                "description": "Of the diagnosis.",
                "schema": {"type": "string", "format": "uuid"},
                "example": examples.TAKEN.id,
            }
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/GivenOutcome"},
                    "examples": {"histopathology": {"value": examples.OUTCOME.model_dump(mode="json")}},
                }
            },
        },
    }


def _card() -> dict[str, Any]:
    return {
        **_read(
            "A model's figures by subgroup, calibration and lineage",
            "readCard",
            examples.card(),
            "401",
            "403",
            "404",
            "429",
            "503",
        ),
        "description": "A page where `Accept` asks for text/html, else JSON.",
        "parameters": [
            {
                "name": "name",
                "in": "path",
                "required": True,
                "schema": {"type": "string"},
                "example": examples.PARAMETERS["model"],
            }
        ],
    }


def _read(summary: str, operation: str, example: BaseModel, *problems: str) -> dict[str, Any]:
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": _answer(summary, {"answer": example}), **_problems(*problems)},
    }


def _text(summary: str, operation: str, *problems: str) -> dict[str, Any]:
    return _page(summary, operation, "text/plain", *problems)


def _page(summary: str, operation: str, kind: str, *problems: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "object" if kind == "application/json" else "string"}}}
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}, **_problems(*problems)},
    }


def _open(operation: dict[str, Any]) -> dict[str, Any]:
    """The operation, which needs no key."""
    return {**operation, "security": []}


def _diagnosis() -> dict[str, Any]:
    """The diagnosis in either form; JSON where nothing else is asked for."""
    answer = _answer("the diagnosis; as a FHIR R4 Bundle where `Accept` prefers it", examples.diagnoses())
    answer["content"][FHIR] = described()
    return answer


def _answer(description: str, shown: Mapping[str, BaseModel]) -> dict[str, Any]:
    """An answer in JSON, of the schema that its examples are of."""
    (schema,) = {type(example).__name__ for example in shown.values()}
    content = {
        "schema": {"$ref": f"#/components/schemas/{schema}"},
        "examples": {name: {"value": example.model_dump(mode="json")} for name, example in shown.items()},
    }
    return {"description": description, "content": {"application/json": content}}


def _problems(*statuses: str) -> dict[str, Any]:
    reference = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {
            "description": _REASONS[status],
            "content": {
                PROBLEM: {
                    "schema": reference,
                    "examples": {
                        one.name: {"value": examples.problem(one)} for one in examples.PROBLEMS[status]
                    },
                }
            },
        }
        for status in statuses
    }
