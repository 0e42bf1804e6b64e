"""How FHIR and the page show a field of an answer, and examples made of those of the fields.

What a field means, and an example of it, are pydantic's own: `Field(description=…, examples=[…])`. A field of
`serving.protocol.schemas` that FHIR or the page shows has a `Fact` in its annotation too.
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
    """How the page shows a field: in a row among the metrics.

    Attributes:
        title: what it is called.
        note: the text next to the value; `{name}` is the field of that name in the same part.
    """

    title: str
    note: str = ""


@dataclass(frozen=True)
class Fact:
    """How FHIR and the page show a field.

    Attributes:
        unit: of a number; None where it counts something.
        fhir: its component in FHIR; None where it is none, or the translation is written out.
        page: its row on the page; None where it has none, or the template tells it.
        optional: whether FHIR and the page leave it out where it is None.
    """

    unit: Unit | None = None
    fhir: Coded | None = None
    page: Figure | None = None
    optional: bool = False


@cache
def facts(model: type[BaseModel]) -> tuple[tuple[str, FieldInfo, Fact], ...]:
    """The fields of a part of an answer, each with how it is shown.

    Raises:
        TypeError: a field has no description.
    """
    found = []
    for name, field in model.model_fields.items():
        if not field.description:
            raise TypeError(f"{model.__name__}.{name} does not say what it means; give it a description")
        found.append((name, field, next((one for one in field.metadata if isinstance(one, Fact)), Fact())))
    return tuple(found)


def part_of(annotation: Any) -> type[BaseModel] | None:
    """The part of an answer that a field's type is, or is a list of."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def example(model: type[AnyModel], /, **given: Any) -> AnyModel:
    """An example of a document or a part of one, made of the first example of each field.

    Args:
        model: the part.
        given: what is to be in place of an example; of a part within it, a mapping may name some fields.
    """
    values: dict[str, Any] = {}
    for name, field, _ in facts(model):
        part = part_of(field.annotation)
        shown = given.pop(name, field.examples[0] if field.examples else ...)
        if part is not None:
            alone = get_origin(field.annotation) is not list
            if shown is ...:
                shown = example(part) if alone else [example(part)]
            elif alone and isinstance(shown, Mapping):
                shown = example(part, **shown)
        if shown is not ...:
            values[name] = shown
    return model.model_validate({**values, **given})
