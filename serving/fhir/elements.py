"""The pieces that the resources are made of: codes, concepts, quantities, references, and single fields.

What has no code in a public system has one of ours, under a URI that begins with `urn:dermfed:`, or a text
alone. A code of a class that a terminologist has yet to look at carries the extension `UNCERTAIN`. A field of
an answer that is one value is a component of an Observation or a property of the Device, called as its `Fact`
says.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from registry.bundle.labels import Label
from serving.protocol.fields import PROBABILITY, Coded, Unit, facts
from serving.protocol.schemas import Answer

OWN: Final = "urn:dermfed:"
UNCERTAIN: Final = OWN + "uncertain-coding"
"""The extension of a code on which published lists disagree."""

TERMINOLOGY: Final = "http://terminology.hl7.org/CodeSystem/"

Element = dict[str, Any]


def identity(request_id: str, name: str) -> str:
    """The id of a resource: the same for the same request and name, and never that of another."""
    try:
        space = uuid.UUID(request_id)
    except ValueError:
        space = uuid.uuid5(uuid.NAMESPACE_URL, OWN + request_id)
    return str(uuid.uuid5(space, name))


def clean(text: str) -> str:
    """A text as FHIR allows it: no control characters, one space at a time, none at the ends."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def own(system: str, code: str, display: str | None = None) -> Element:
    """A coding in a system of ours."""
    shown = {"display": clean(display)} if display and clean(display) else {}
    return {"system": OWN + system, "code": clean(code), **shown}


def public(system: str, code: str, display: str) -> Element:
    """A coding in one of HL7's systems."""
    return {"system": TERMINOLOGY + system, "code": code, "display": display}


def concept(text: str, *codings: Element) -> Element:
    """A concept with its codes; those without a code are left out."""
    given = [coding for coding in codings if coding["code"]]
    named = {"text": clean(text)} if clean(text) else {}
    return {**({"coding": given} if given else {}), **named} or {"text": "?"}


def class_concept(code: str, labels: Sequence[Label]) -> Element:
    """A class of the model: its own code, and the ones that the bundle has for it."""
    label = next((label for label in labels if label.code == code), None)
    if label is None:
        return concept(code, own("class", code))
    return concept(label.name, own("class", code, label.name), *map(_coding, label.codings))


def _coding(given: Any) -> Element:
    """A code of another system, marked where it is uncertain."""
    marked = {} if given.certain else {"extension": [{"url": UNCERTAIN, "valueBoolean": True}]}
    version = {"version": clean(given.version)} if given.version and clean(given.version) else {}
    display = {"display": clean(given.display)} if clean(given.display) else {}
    system = clean(given.system).replace(" ", "")
    return {**marked, "system": system, **version, "code": clean(given.code), **display}


def quantity(value: float, unit: Unit | None) -> Element:
    """A number, with its unit where it has one."""
    named = {"unit": unit.name, "system": "http://unitsofmeasure.org", "code": unit.code} if unit else {}
    return {"value": value, **named}


def probability(value: float) -> Element:
    """A probability: a number without a unit, which UCUM calls 1."""
    return quantity(value, PROBABILITY)


def absent(code: str, display: str) -> Element:
    """Why there is no value."""
    return {"coding": [public("data-absent-reason", code, display)]}


def notes(texts: Sequence[str]) -> Element:
    """Remarks, if there are any."""
    said = [{"text": clean(text)} for text in texts if clean(text)]
    return {"note": said} if said else {}


def reference(identifier: str) -> Element:
    """A reference to a resource of the same bundle."""
    return {"reference": f"urn:uuid:{identifier}"}


def components(part: Answer) -> list[Element]:
    """The components that fields of a part of an answer are."""
    return [
        {"code": observed(coded.code, coded.title), **_value(coded, value, unit)}
        for coded, value, unit in _coded(part)
    ]


def properties(part: Answer) -> list[Element]:
    """The properties of a Device that fields of a part of an answer are: R4 has codes and quantities."""
    return [
        {
            "type": concept(coded.title),
            **_property(coded, value, unit),
        }
        for coded, value, unit in _coded(part)
        if value is not None
    ]


def observed(code: str, text: str) -> Element:
    """What an Observation or a component of it is about."""
    return concept(text, own("observation", code))


def own_value(system: str, code: str, text: str) -> Element:
    """A value that has a code of ours."""
    return concept(text, own(system, code))


def _coded(part: Answer) -> Iterator[tuple[Coded, Any, Unit | None]]:
    """The fields with a FHIR element, and their values; optional fields only where they have a value."""
    for name, _, fact in facts(type(part)):
        if fact.fhir is not None and not (fact.optional and getattr(part, name) is None):
            yield fact.fhir, getattr(part, name), fact.unit


def _property(coded: Coded, value: Any, unit: Unit | None) -> Element:
    """The value of a property, by its type."""
    match value:
        case bool():
            return {"valueCode": [concept("yes" if value else "no")]}
        case str():
            return {"valueCode": [concept(value)]}
        case int() | float():
            return {"valueQuantity": [quantity(value, unit)]}
        case _:
            raise _unknown(coded, value)


def _value(coded: Coded, value: Any, unit: Unit | None) -> Element:
    """The value of a component, by its type."""
    match value:
        case None:
            return {"dataAbsentReason": absent("unknown", "Unknown")}
        case bool():
            return {"valueBoolean": value}
        case int() if unit is None:
            return {"valueInteger": value}
        case int() | float():
            return {"valueQuantity": quantity(value, unit)}
        case str():
            return {"valueCodeableConcept": own_value(coded.code, value, value)}
        case _:
            raise _unknown(coded, value)


def _unknown(coded: Coded, value: Any) -> TypeError:
    return TypeError(f"nothing in FHIR is made of {coded.code}, a {type(value).__name__}; write it out")
