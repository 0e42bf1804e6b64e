"""The FHIR answer as the description of the interface shows it: its shape, and one whole example."""

from typing import Any

from registry.bundle.labels import ICD10, Coding, Label
from serving.fhir.bundle import fhir_bundle
from serving.protocol.fields import example
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import (
    Diagnosis,
    Inputs,
)

_MELANOMA = Coding(
    system=ICD10, version="2019", code="C43.9", display="Malignant melanoma of skin, unspecified"
)
_LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant", codings=(_MELANOMA,)),
    Label(code="NV", name="Melanocytic naevus", malignancy="benign"),
)


def described() -> dict[str, Any]:
    """The media type's part of an OpenAPI response."""
    entry = {
        "type": "object",
        "required": ["fullUrl", "resource"],
        "properties": {
            "fullUrl": {"type": "string", "format": "uri"},
            "resource": {
                "type": "object",
                "required": ["resourceType", "id"],
                "properties": {
                    "resourceType": {
                        "enum": ["DiagnosticReport", "Observation", "Media", "Device", "Provenance"]
                    },
                    "id": {"type": "string", "format": "uuid"},
                },
            },
        },
    }
    schema = {
        "type": "object",
        "description": "A FHIR R4 Bundle; see https://hl7.org/fhir/R4/bundle.html",
        "required": ["resourceType", "id", "type", "timestamp", "entry"],
        "properties": {
            "resourceType": {"const": "Bundle"},
            "id": {"type": "string", "format": "uuid"},
            "type": {"const": "collection"},
            "timestamp": {"type": "string", "format": "date-time"},
            "entry": {"type": "array", "minItems": 1, "items": entry},
        },
    }
    return {"schema": schema, "example": _example()}


def _example() -> dict[str, Any]:
    return fhir_bundle(example(Diagnosis, inputs=example(Inputs)), _LABELS, Parameters("5"))
