"""Documents that describe their fields, which of these FHIR shows, and examples of documents.

What a field means is the text below it, and an example of it is pydantic's own: `Field(examples=[…])`. A
field of `serving.protocol.schemas` that FHIR shows has a `Coded` in its annotation too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict

AnyModel = TypeVar("AnyModel", bound=BaseModel)


def _on_one_line(schema: dict[str, Any]) -> None:
    """Joins the lines of each field's text in the description of the interface."""
    for described in schema.get("properties", {}).values():
        if "description" in described:
            described["description"] = " ".join(described["description"].split())


class Described(BaseModel):
    """A document whose fields are described by the texts below them."""

    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_extra=_on_one_line)


@dataclass(frozen=True)
class Coded:
    """How FHIR shows a field: as a component of its part's Observation.

    Attributes:
        code: in the system `urn:dermfed:observation`.
        title: what it is called.
    """

    code: str
    title: str


def coded(part: BaseModel) -> Iterator[tuple[Coded, Any]]:
    """The fields of a part that FHIR shows, with their values; without optional ones that are None."""
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        for one in field.metadata:
            if isinstance(one, Coded) and (value is not None or field.is_required()):
                yield one, value


def example(model: type[AnyModel], /, **given: Any) -> AnyModel:
    """An example of a document or a part of one, made of the first example of each field.

    Args:
        model: the part.
        given: what is to be in place of an example; of a part within it, a mapping may name some fields.
    """
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = (field.annotation, *get_args(field.annotation))
        part = next((one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)), None)
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
