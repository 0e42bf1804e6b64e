"""The pieces that the resources are made of: codes, concepts, quantities, references.

What has no code in a public system has one of ours, under a URI that begins with `urn:dermfed:`, or a text
alone. A code of a class that a terminologist has yet to look at carries the extension `UNCERTAIN`.
"""

import uuid
from collections.abc import Sequence
from typing import Any, Final

from registry.bundle.labels import Label
from serving.protocol.fields import PROBABILITY, Unit

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


def urn(identifier: str) -> str:
    """A UUID as a URI."""
    return f"urn:uuid:{identifier}"


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
    return {"reference": urn(identifier)}
