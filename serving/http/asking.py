"""How a diagnosis is asked for, as the description says it: the parameters, and the bodies that may be sent.

Written so that generated clients work, of which many know less than OpenAPI does (decision 55): the form is
the first body and a schema with a name, its files are lists, and no parameter has a `default`, which clients
would send in the query against what their users put into the form.
"""

from typing import Any, Final

from registry.bundle.cases import KINDS as KINDS_OF_PICTURE
from registry.bundle.cases import KNOWN
from serving.http import examples
from serving.http.upload import BYTES, FORM, KINDS, MAX_PICTURES
from serving.protocol.parameters import DEFAULT_SCALE, MAX_TOP, scales

PICTURES: Final = ("image/jpeg", "image/png", "image/webp", "application/dicom")

FORM_SCHEMA: Final = "DiagnosisForm"
"""What the form is called among the schemas."""

_LONGEST_FACT: Final = 200


def described(max_bytes: int) -> dict[str, Any]:
    """The part of the operation that says what is sent.

    Args:
        max_bytes: how large a picture may be, or all pictures of a form together.
    """
    return {
        "description": "The body is a form with files, or a picture itself; a model that takes cases may be "
        f"sent several of one lesion ({', '.join(KINDS)}), and facts ({', '.join(KNOWN)}, or others that it "
        f"takes; see GET /v1/models). A form holds at least one file and at most {MAX_PICTURES}, which "
        "together may be as large as one picture. All parameters may be in the query or the form; one that "
        "is given twice has to say the same. Facts about a patient are for the form alone.",
        "parameters": _parameters(),
        "x-codeSamples": [
            {"lang": "Shell", "label": label, "source": source} for label, source in examples.REQUESTS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {
                FORM: {
                    "schema": {"$ref": f"#/components/schemas/{FORM_SCHEMA}"},
                    "encoding": {name: {"contentType": ", ".join((*PICTURES, BYTES))} for name in KINDS},
                    "examples": {"a case": {"value": examples.CASE}},
                },
                **{kind: {"schema": _picture(max_bytes)} for kind in (*PICTURES, BYTES)},
            },
        },
    }


def form(max_bytes: int) -> dict[str, Any]:
    """The schema of the form."""
    fields = {parameter["name"]: parameter["schema"] for parameter in _parameters()}
    return {
        "type": "object",
        "description": "The pictures of one lesion, at least one of them, with parameters and facts.",
        # As `anyOf` it would be plainer, and openapi-python-client would make no class of the form.
        "not": {"allOf": [{"not": {"required": [name]}} for name in KINDS]},
        "properties": {
            **{name: _files(kind, max_bytes) for name, kind in KINDS.items()},
            **fields,
            **{name: _fact(name) for name in KNOWN},
        },
        "additionalProperties": {
            "type": "string",
            "maxLength": _LONGEST_FACT,
            "description": "Any other fact that the model takes, by its name; see `GET /v1/models`.",
        },
    }


def _picture(max_bytes: int) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "maxLength": max_bytes}


def _files(kind: str | None, max_bytes: int) -> dict[str, Any]:
    what = "Pictures, of the kind that `image_kind` says" if kind is None else f"Pictures, {kind}"
    return {
        "type": "array",
        "items": _picture(max_bytes),
        "minItems": 1,
        "maxItems": MAX_PICTURES,
        "description": f"{what}: one or more, each a field of this name.",
    }


def _fact(name: str) -> dict[str, Any]:
    fact = KNOWN[name]
    allowed = (
        f"from {fact.low:g} to {fact.high:g} {fact.unit}"
        if fact.kind == "number"
        else f"one of {', '.join(fact.values)}, or a usual spelling of one"
    )
    return {
        "type": "string",
        "maxLength": _LONGEST_FACT,
        "description": f"Where the model takes it: {allowed}; empty where it is not known.",
    }


def _parameters() -> list[dict[str, Any]]:
    tones = "; ".join(f"{name}: {', '.join(values)}" for name, values in scales().items())
    said: list[tuple[str, dict[str, Any], str]] = [
        ("skin_tone", {"type": "string"}, f"The declared skin tone ({tones}; fitzpatrick also I to VI)."),
        (
            "skin_tone_scale",
            {"type": "string", "enum": [*scales(), ""]},
            f"The scale it is declared on, {DEFAULT_SCALE} where none is named; scales are never converted.",
        ),
        ("model", {"type": "string"}, "The model to ask, where several are served."),
        (
            "top",
            {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_TOP}, {"const": ""}]},
            "List only so many findings.",
        ),
        (
            "image_kind",
            {"type": "string", "enum": [*KINDS_OF_PICTURE, "unknown", ""]},
            "Of what kind the picture `image` or the body is, where the model takes cases.",
        ),
        (
            "explain",
            {"type": "string", "enum": ["true", "false", ""]},
            "With `true` the answer has a map of where in each picture the model looked, as `explanation`; "
            "one in FHIR has none.",
        ),
    ]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": schema,
            "description": text,
            "example": examples.PARAMETERS[name],
        }
        for name, schema, text in said
    ]
