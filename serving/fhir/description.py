"""The FHIR answer as the description of the interface shows it: its shape, and one whole example."""

from datetime import UTC, datetime
from typing import Any

from registry.bundle.codings import ICD10
from registry.bundle.labels import Coding, Label
from serving.fhir.bundle import fhir_bundle
from serving.parameters import Parameters
from serving.schemas import (
    AnsweringModel,
    Confidence,
    Diagnosis,
    Finding,
    MalignancyRisk,
    PredictionSet,
    Quality,
    Reason,
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
                    "resourceType": {"enum": ["DiagnosticReport", "Observation", "Device", "Provenance"]},
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
    diagnosis = Diagnosis(
        id="6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        decision="refer",
        reasons=[
            Reason(
                code="low-confidence",
                text="The highest probability is 0.520; below 0.550, chosen on 400 pictures, this version "
                "refers.",
            )
        ],
        model=AnsweringModel(
            name="skin-lesion", version=3, subgroup="dark", digest="sha256:" + "0" * 64, route="declared"
        ),
        findings=[
            Finding(
                code="MEL",
                name="Melanoma",
                malignancy="malignant",
                probability=0.52,
                coding={"icd10": _MELANOMA.code},
            )
        ],
        prediction_set=PredictionSet(
            codes=["MEL", "NV"], coverage=0.9, guarantee="subgroup", calibration_n=412
        ),
        malignancy=MalignancyRisk(probability=0.52),
        confidence=Confidence(value=0.52, threshold=0.55, calibrated_on_n=400),
        quality=Quality(acceptable=True, issues=[]),
        warnings=[],
    )
    return fhir_bundle(diagnosis, _LABELS, Parameters("5"))
