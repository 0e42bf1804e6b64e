"""What a field of an answer says beside its type: its meaning, an example, how FHIR and the page tell it.

The fields of `serving.protocol.schemas` carry a `Fact`; FHIR, the page and the examples read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True)
class Unit:
    """A unit of measurement.

    Attributes:
        name: for people.
        code: in UCUM.
    """

    name: str
    code: str


PROBABILITY: Final = Unit("probability", "1")
"""A share from 0 to 1; the page shows it in per cent."""


@dataclass(frozen=True)
class Coded:
    """How FHIR tells a field: as a component of its part's Observation, or a property of the Device.

    Attributes:
        code: in the system `urn:dermfed:observation`.
        title: what it is called.
    """

    code: str
    title: str


@dataclass(frozen=True)
class Figure:
    """How the page shows a field: in a row among the figures.

    Attributes:
        title: what it is called.
        note: what stands beside the value; `{name}` is the field of that name in the same part.
    """

    title: str
    note: str = ""


@dataclass(frozen=True)
class Fact:
    """What is said of one field.

    Attributes:
        meaning: what it is, for whoever reads the JSON.
        example: a value for the examples; where there is none, the field's default, or its part's examples.
        unit: of a number; None where it counts something.
        fhir: its component in FHIR; None where it is none, or the translation is written out.
        page: its row on the page; None where it has none, or the template tells it.
        optional: whether FHIR and the page leave it out where it is None.
    """

    meaning: str
    example: Any = ...
    unit: Unit | None = None
    fhir: Coded | None = None
    page: Figure | None = None
    optional: bool = False


@cache
def facts(model: type[BaseModel]) -> tuple[tuple[str, FieldInfo, Fact], ...]:
    """The fields of a part of an answer, each with what is said of it.

    Raises:
        TypeError: a field says nothing of itself.
    """
    found = []
    for name, field in model.model_fields.items():
        fact = next((one for one in field.metadata if isinstance(one, Fact)), None)
        if fact is None:
            raise TypeError(f"{model.__name__}.{name} does not say what it means; annotate it with a Fact")
        found.append((name, field, fact))
    return tuple(found)


def part_of(annotation: Any) -> type[BaseModel] | None:
    """The part of an answer that a field's type is, or is a list of."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def example(model: type[AnyModel], /, **given: Any) -> AnyModel:
    """An example of a part of an answer, made of the examples of its fields.

    Args:
        model: the part.
        given: what is to stand in place of an example; of a part within it, a mapping may name some fields.
    """
    values: dict[str, Any] = {}
    for name, field, fact in facts(model):
        part, value = part_of(field.annotation), given.pop(name, fact.example)
        if part is not None:
            alone = get_origin(field.annotation) is not list
            if value is ...:
                value = example(part) if alone else [example(part)]
            elif alone and isinstance(value, Mapping):
                value = example(part, **value)
        if value is not ...:
            values[name] = value
    return model.model_validate({**values, **given})
