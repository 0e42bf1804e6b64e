"""A case in FHIR: a Media for each picture, the body site, and an Observation of each other fact.

Only what was sent is told, as it was understood, and of nobody: whoever stores it adds the patient.
"""

from typing import Final

from serving.fhir.elements import Element, clean, concept, identity, own, public, quantity
from serving.fhir.facts import observed, own_value
from serving.protocol.fields import Unit
from serving.protocol.schemas import Diagnosis

SITE: Final = "site"
_AGE: Final = Unit("years", "a")
_LOINC: Final = {"age": ("30525-0", "Age"), "sex": ("46098-0", "Sex")}


def body_site(diagnosis: Diagnosis) -> Element:
    """The element `bodySite`, if it is known."""
    site = diagnosis.inputs.facts.get(SITE) if diagnosis.inputs else None
    return {} if site is None else {"bodySite": concept(site.replace("_", " "), own("site", site))}


def media(diagnosis: Diagnosis) -> list[Element]:
    """A Media for each picture of a case, which says of what kind it is; its content was not kept."""
    kinds = diagnosis.inputs.pictures if diagnosis.inputs else []
    return [
        {
            "resourceType": "Media",
            "id": identity(diagnosis.id, f"Media/{number}"),
            "status": "completed",
            "type": concept("Image", public("media-type", "image", "Image")),
            "view": own_value("picture-kind", kind, kind),
            **body_site(diagnosis),
            "content": {"title": f"{kind} picture; it was not kept"},
        }
        for number, kind in enumerate(kinds)
    ]


def known_facts(diagnosis: Diagnosis) -> list[Element]:
    """An Observation of each fact that was sent but the body site: not found by the model, and not final."""
    facts = diagnosis.inputs.facts if diagnosis.inputs else {}
    return [
        {
            "resourceType": "Observation",
            "id": identity(diagnosis.id, f"Observation/fact/{name}"),
            "status": "preliminary",
            "code": _code(name),
            "issued": diagnosis.created.isoformat(),
            **_value(name, text),
        }
        for name, text in facts.items()
        if name != SITE
    ]


def _code(name: str) -> Element:
    if name not in _LOINC:
        return observed("fact", name.replace("_", " "))
    code, display = _LOINC[name]
    return concept(display, {"system": "http://loinc.org", "code": code, "display": display})


def _value(name: str, text: str) -> Element:
    """The value: an age is a number, a sex has a code of HL7, anything else is told as it was understood."""
    if name == "age":
        return {"valueQuantity": quantity(float(text), _AGE)}
    if name == "sex":
        coding = {"system": "http://hl7.org/fhir/administrative-gender", "code": text}
        return {"valueCodeableConcept": concept(text, coding)}
    return {"valueString": clean(text) or "?"}
