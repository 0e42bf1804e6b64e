"""Fields of an answer that are one value each: components of an Observation, properties of the Device.

What they are called is their `Fact`'s. What needs more than that is written out in the resources: classes
with their codes, the decision, reasons, the values of observations themselves.
"""

from collections.abc import Iterator
from typing import Any

from serving.fhir.elements import Element, absent, concept, own, quantity
from serving.protocol.fields import Coded, Unit, facts
from serving.protocol.schemas import Answer


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
    """The fields that FHIR is told of, with their values; of those that came later, what is known."""
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
