"""The description of the interface: OpenAPI 3.1 out of the pydantic models and a table of operations.

Written so that generated clients work, of which many know less than OpenAPI does: the form is the first body
and a schema with a name, its files are lists, and no parameter has a `default`. That one of several files
must be sent is expressed as "not all of them are missing": some generators make no class of an `anyOf`.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from registry.bundle.cases import KNOWN
from registry.environment import own_version
from serving.http.middleware import POLICY, policy_for
from serving.http.upload import BYTES, FORM, KINDS, MAX_PICTURES, MEDIA_TYPES
from serving.protocol import problems
from serving.protocol.documents import Card, GivenOutcome, Models, OutcomeTaken, ProblemDocument, Readiness
from serving.protocol.fhir import fhir_bundle
from serving.protocol.fields import example
from serving.protocol.negotiation import FHIR, operation_outcome
from serving.protocol.parameters import FORMAT, Asked, Parameters
from serving.protocol.schemas import DISCLAIMER, Diagnosis
from serving.settings import ServeSettings

PICTURES: Final = (*(name for name in MEDIA_TYPES if name != "image/jpg"), BYTES)
FORM_SCHEMA: Final = "DiagnosisForm"
JSON: Final = "application/json"

KINDS_OF_PROBLEMS: Final = {
    kind.name: kind
    for kind in vars(problems).values()
    if isinstance(kind, type) and issubclass(kind, problems.ProblemResponse)
}
ANY: Final = "malformed-request internal"
"""The problems that any request may be answered, by the end of their type."""

KEYED: Final = "unauthorized forbidden too-many-requests no-model"
BODY: Final = "cross-site too-large unsupported-media-type invalid-parameter draining"


@dataclass(frozen=True)
class Operation:
    """One row of the table.

    Attributes:
        request: method and path.
        id: of the operation, for generated clients.
        tag: under which it is listed.
        summary: what it is for, in a line.
        answer: the model of its document, or the media type of what is none.
        problems: that it may answer besides `ANY`, by the end of their type.
        description: what else is to be known.
    """

    request: str
    id: str
    tag: str
    summary: str
    answer: type[BaseModel] | str
    problems: str = ""
    description: str = ""


OPERATIONS: Final = (
    Operation(
        "POST /v1/diagnoses",
        "diagnose",
        "diagnoses",
        "Diagnose one lesion",
        Diagnosis,
        f"{KEYED} {BODY} not-an-image burned-in not-found not-acceptable too-costly no-decoder busy deadline",
        "The body is a form with files, or a picture itself; a model that takes cases may be sent several of "
        f"one lesion ({', '.join(KINDS)}), and facts ({', '.join(KNOWN)}, or others that it takes; see GET "
        f"/v1/models). A form holds at least one file and at most {MAX_PICTURES}, which together may be as "
        "large as one picture. All parameters may be in the query or the form; one that is given twice has "
        "to say the same. Facts about a patient are for the form alone.",
    ),
    Operation(
        "POST /v1/diagnoses/{id}/outcome",
        "giveOutcome",
        "diagnoses",
        "Say what became of the patient",
        OutcomeTaken,
        f"{KEYED} {BODY} unknown-diagnosis nothing-kept outcome-known outcome-not-kept",
        "For diagnoses that this service keeps, and this key has asked for. The same again changes nothing; "
        "another outcome has to say that it corrects the one before.",
    ),
    Operation("GET /v1/models", "listModels", "models", "What is served", Models, KEYED),
    Operation(
        "GET /v1/models/{name}/card",
        "readCard",
        "models",
        "A model's figures by subgroup, calibration and lineage",
        Card,
        f"{KEYED} not-found",
        "A page where `Accept` asks for text/html, else JSON.",
    ),
    Operation("GET /livez", "livez", "operation", "Whether the process is alive", "text/plain"),
    Operation(
        *("GET /readyz", "readyz", "operation", "Whether a model can answer", Readiness),
        "no-model draining",
    ),
    Operation("GET /metrics", "metrics", "operation", "Prometheus metrics", "text/plain", KEYED),
    Operation("GET /openapi.json", "openapi", "description", "This description", JSON),
    Operation("GET /docs", "docs", "description", "This description as a page", "text/html"),
)

IN_PATH: Final[dict[str, dict[str, Any]]] = {
    "id": {"description": "Of the diagnosis.", "schema": {"type": "string", "format": "uuid"}},
    "name": {"description": "Of the model.", "schema": {"type": "string"}, "example": "skin-lesion"},
}


def describe(settings: ServeSettings) -> dict[str, Any]:
    """The whole document; a service that keeps no answers takes no outcomes, and does not describe how."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method, path = operation.request.split()
        if operation.answer is OutcomeTaken and settings.outcomes_url is None:
            continue
        paths.setdefault(path, {})[method.lower()] = _operation(operation, path, settings)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dermfed diagnosis service",
            "version": own_version(),
            "description": "A skin picture in, a calibrated answer or `refer` out. " + DISCLAIMER,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": settings.prefix or "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(one.tag for one in OPERATIONS)],
        "paths": paths,
        "components": {
            "schemas": {**_schemas(), FORM_SCHEMA: _form(settings), **_fhir()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


@cache
def _schemas() -> dict[str, Any]:
    """The documents that are answered or sent, by their names."""
    answers: list[type[BaseModel]] = [ProblemDocument]
    answers += [one.answer for one in OPERATIONS if not isinstance(one.answer, str)]
    _, schemas = models_json_schema(
        [*((model, "serialization") for model in answers), (GivenOutcome, "validation")],
        ref_template="#/components/schemas/{model}",
    )
    return dict(schemas["$defs"])


def _operation(operation: Operation, path: str, settings: ServeSettings) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, **IN_PATH[name]}
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    said: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        **({"description": operation.description} if operation.description else {}),
    }
    if operation.answer is Diagnosis:
        parameters += _query()
        said["requestBody"] = _upload(settings)
    elif operation.answer is OutcomeTaken:
        said["requestBody"] = {"required": True, "content": {JSON: _document(GivenOutcome)}}
    if KEYED not in operation.problems:
        said["security"] = []
    return said | ({"parameters": parameters} if parameters else {}) | {"responses": _responses(operation)}


@cache
def _responses(operation: Operation) -> dict[str, Any]:
    in_fhir = operation.answer is Diagnosis
    content = (
        {operation.answer: {"schema": {"type": "object" if operation.answer == JSON else "string"}}}
        if isinstance(operation.answer, str)
        else {JSON: _document(operation.answer)}
    )
    if in_fhir:
        shown = fhir_bundle(example(Diagnosis), (), Parameters("5"))
        content[FHIR] = {"schema": _reference("FhirBundle"), "example": shown}
    responses: dict[str, Any] = {"200": {"description": operation.summary, "content": content}}
    by_status: dict[int, list[problems.ProblemResponse]] = {}
    id_ = str(example(Diagnosis).id)
    named = {*operation.problems.split(), *ANY.split()}
    for kind in sorted(
        (KINDS_OF_PROBLEMS[name] for name in named), key=lambda kind: (kind.status, kind.name)
    ):
        by_status.setdefault(kind.status, []).append(kind(kind.title))
    for status, kinds in by_status.items():
        shown = {one.name: {"value": one.document(id_)} for one in kinds}
        content = {problems.MEDIA_TYPE: {"schema": _reference("ProblemDocument"), "examples": shown}}
        if in_fhir:
            outcome = operation_outcome(kinds[0])
            content[FHIR] = {"schema": _reference("OperationOutcome"), "example": outcome}
        described = "; ".join(dict.fromkeys(one.title for one in kinds))
        responses[str(status)] = {"description": described, "content": content}
    return responses


def _query() -> list[dict[str, Any]]:
    fields = Asked.model_json_schema()["properties"]
    fields[FORMAT] = {
        "type": "string",
        "enum": ["json", FHIR, ""],
        "description": "FHIR's own parameter: either value asks for FHIR, whatever `Accept` says.",
        "examples": [FHIR],
    }
    return [
        {
            **{"name": name, "in": "query", "required": False, "description": schema.pop("description")},
            **{"example": schema.pop("examples")[0], "schema": schema},
        }
        for name, schema in fields.items()
    ]


def _upload(settings: ServeSettings) -> dict[str, Any]:
    """The bodies: a form, or a picture itself."""
    case = {name: ["(the bytes of a picture)"] for name in ("close_up", "dermoscopic")}
    form = {
        "schema": _reference(FORM_SCHEMA),
        "encoding": {name: {"contentType": ", ".join(PICTURES)} for name in KINDS},
        "examples": {"a case": {"value": {**case, "age": "70", "site": "trunk", "skin_tone": "V"}}},
    }
    return {
        "required": True,
        "content": {FORM: form, **{kind: {"schema": _picture(settings)} for kind in PICTURES}},
    }


def _form(settings: ServeSettings) -> dict[str, Any]:
    """The schema of the form: files, parameters, and facts."""
    text = {"type": "string", "maxLength": 200}
    files = {
        name: {
            "type": "array",
            "items": _picture(settings),
            **{"minItems": 1, "maxItems": MAX_PICTURES},
            "description": f"Pictures, {kind or 'of the kind that `image_kind` says'}: one or more, each a "
            "field of this name. At least one picture of any name has to be there.",
        }
        for name, kind in KINDS.items()
    }
    allowed = {
        name: f"from {fact.low:g} to {fact.high:g} {fact.unit}"
        if fact.kind == "number"
        else f"one of {', '.join(fact.values)}, or a usual spelling of one"
        for name, fact in KNOWN.items()
    }
    facts = {
        name: {**text, "description": f"Where the model takes it: {values}; empty where it is not known."}
        for name, values in allowed.items()
    }
    return {
        "type": "object",
        "description": "The pictures of one lesion, at least one of them, with parameters and facts.",
        "not": {"allOf": [{"not": {"required": [name]}} for name in KINDS]},
        "properties": {**files, **Asked.model_json_schema()["properties"], **facts},
        "additionalProperties": {**text, "description": "Any other fact that the model takes, by its name."},
    }


def _picture(settings: ServeSettings) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "maxLength": settings.max_bytes}


def _fhir() -> dict[str, Any]:
    """Resources of FHIR, as far as one sees whether they are some; HL7 describes the rest."""
    entries = {"entry": {"type": "array", "minItems": 1, "items": {"type": "object"}}}
    issues = {"issue": {"type": "array", "minItems": 1, "items": {"type": "object"}}}
    return {
        name: {
            "type": "object",
            "description": f"See https://hl7.org/fhir/R4/{kind.lower()}.html",
            "required": ["resourceType", *parts],
            "properties": {"resourceType": {"const": kind}, **parts},
        }
        for name, kind, parts in (
            *(("FhirBundle", "Bundle", entries), ("OperationOutcome", "OperationOutcome", issues)),
        )
    }


def _document(model: type[BaseModel]) -> dict[str, Any]:
    return {"schema": _reference(model.__name__), "example": example(model).model_dump(mode="json")}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def docs_page(api: dict[str, Any], base: str) -> str:
    """The HTML of the documentation page for an OpenAPI document, which loads nothing from anywhere.

    Args:
        api: the document.
        base: the service's own address, for the example.
    """
    return str(_pages().get_template("docs.html").render(api=api, base=base))


@cache
def _pages() -> Environment:
    """The page's template; whatever is put into it is escaped."""
    environment = Environment(
        loader=PackageLoader("serving", "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["kind"] = kind
    return environment


def kind(schema: dict[str, Any]) -> str:
    """The type of a field by its JSON Schema, in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(kind(choice) for choice in schema["anyOf"] if choice.get("const") != "")
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value != "")
    match schema.get("type"):
        case "array":
            return f"list of {kind(schema.get('items', {}))}"
        case "integer" if "maximum" in schema:
            return f"integer from {schema['minimum']} to {schema['maximum']}"
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))


_HOSTS = 16
"""Names of the service for which the page is kept; whoever asks may make one up."""


def description_routes(settings: ServeSettings) -> list[Route]:
    """The paths of the OpenAPI document, and of the page made from it."""
    api = describe(settings)  # now, for it takes a tenth of a second
    # Open to all, and the same for all: written once for each path and host that it is asked for under.
    document = lru_cache(1)(lambda root: bytes(JSONResponse({**api, "servers": [{"url": root or "/"}]}).body))
    page = lru_cache(_HOSTS)(partial(docs_page, api))

    async def openapi(request: Request) -> Response:
        return Response(document(request.scope["root_path"]), media_type="application/json")

    async def docs(request: Request) -> Response:
        shown = page(str(request.base_url).rstrip("/"))
        return HTMLResponse(shown, headers={POLICY: policy_for(shown)})

    return [Route("/openapi.json", openapi), Route("/docs", docs)]
