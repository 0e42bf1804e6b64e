"""Tables of interchangeable parts: aggregators, adapters, gates, and whatever else others may add to.

A part is a frozen config that knows how to do its job. A table holds ours, and finds those of other
distributions through an entry-point group such as `dermfed.aggregators`, where the entry point has the part's
own name. Used as an annotation, `Annotated[Aggregator, AGGREGATORS]`, a table tells pydantic what a job may
name.

Every kind keeps the same rule:

- Ours are never replaced: asked for one of our names, a table answers with ours, and imports no other
package's.
- A name that two others claim is an error that names both. Listing all parts tells of a claim to one of ours.
- Others' code is imported when its part is asked for, or when all parts are listed; what is wrong with it is
  an error only then.
"""

import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, SchemaValidator, core_schema

from registry.bundle.errors import PartError
from registry.bundle.text import nearest

OURS = "dermfed"  # the distribution whose parts nobody replaces

Part = TypeVar("Part", bound=BaseModel)


class PartTable(Generic[Part]):
    """The parts of one kind, by name.

    Args:
        kind: what they are, as a user would say it ("aggregator").
        own: our members.
        base: what a part from elsewhere must be a subclass of.
        key: the field whose literal value is the part's name in a file.
        plural: of `kind`, for the entry-point group, where it is not `kind` and an s.

    Attributes:
        own: our members, by name.
        group: the entry-point group of other distributions' parts.
    """

    def __init__(
        self,
        kind: str,
        *own: type[Part],
        base: type[BaseModel] = BaseModel,
        key: str = "name",
        plural: str | None = None,
    ) -> None:
        self.kind = kind
        self.key = key
        self.group = f"dermfed.{plural or kind + 's'}"
        self.own: Mapping[str, type[Part]] = {part.model_fields[key].default: part for part in own}
        self._base = base
        self._validators: dict[type[Part], SchemaValidator] = {}

    @property
    def names(self) -> list[str]:
        """Every name that can be asked for, ours first; nothing is imported."""
        return [*self.own, *sorted(installed(self.group).names - self.own.keys())]

    @property
    def members(self) -> dict[str, type[Part]]:
        """Every part by its name, all of them imported.

        Raises:
            PartError: two claim one name, be it ours, or one cannot be used.
        """
        for point in installed(self.group):
            for ours in self._ours(point.name):
                if point.value != ours.value:
                    raise self._clash(ours, point)
        return {name: self.find(name) for name in self.names}

    def find(self, name: str) -> type[Part]:
        """The part of this name, imported if it is another distribution's.

        Raises:
            PartError: there is none, two others claim the name, or what claims it cannot be used.
        """
        if name in self.own:
            return self.own[name]
        claims = self._ours(name) or list(installed(self.group).select(name=name))
        if not claims:
            raise PartError(f"unknown {self.kind} `{name}`; {nearest(name, sorted(self.names))}")
        for other in claims:
            if other.value != claims[0].value:
                raise self._clash(claims[0], other)
        return self._load(claims[0])

    def _ours(self, name: str) -> list[EntryPoint]:
        """Where our part of this name is; nothing where it is none of ours."""
        if name in self.own:
            part = self.own[name]
            return [EntryPoint(name, f"{part.__module__}:{part.__qualname__}", self.group)]
        claims = installed(self.group).select(name=name)
        return [point for point in claims if distribution(point) == OURS]

    def _clash(self, one: EntryPoint, other: EntryPoint) -> PartError:
        plural = self.group.removeprefix("dermfed.")
        return PartError(
            f"two {plural} are called {one.name}: {where(one)} and {where(other)}; uninstall one of them, or "
            "have its author rename it"
        )

    def _load(self, point: EntryPoint) -> type[Part]:
        told = f"{self.kind} {point.name!r} ({where(point)})"
        try:
            part = point.load()
        except Exception as error:
            raise PartError(
                f"{told} cannot be imported: {type(error).__name__}: {error}; mend it, or uninstall it"
            ) from error
        if not (isinstance(part, type) and issubclass(part, self._base)):
            raise PartError(f"{told} is no subclass of {self._base.__qualname__}")
        if missing := sorted(getattr(part, "__abstractmethods__", ())):
            raise PartError(f"{told} does not define {', '.join(missing)}")
        field = part.model_fields.get(self.key)
        if field is None or field.default != point.name:
            called = "has no" if field is None else f"has {field.default!r} as its"
            raise PartError(
                f"{told} {called} `{self.key}`; it is to be the entry point's name, {point.name!r}"
            )
        return part  # type: ignore[return-value]  # every base is that of its table

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict | BaseModel):
            raise PydanticKnownError("model_attributes_type")
        name = value.get(self.key) if isinstance(value, dict) else getattr(value, self.key, None)
        if not isinstance(name, str) or (name not in self.own and name not in self.names):
            raise PydanticCustomError(
                "unknown_part",
                "unknown {kind} `{name}`; {hint}" if name else "name the {kind} by its `{key}`; {hint}",
                {
                    "kind": self.kind,
                    "key": self.key,
                    "name": str(name),
                    "hint": nearest(str(name), sorted(self.names)),
                },
            )
        try:
            part = self.find(name)
        except PartError as error:
            raise PydanticCustomError("unusable_part", "{why}", {"why": str(error)}) from error
        if part not in self._validators:
            self._validators[part] = SchemaValidator(self._union({name: part}))
        if info.mode == "json":  # a strict part takes a list for a tuple from JSON alone
            return self._validators[part].validate_json(json.dumps(value), context=info.context)
        return self._validators[part].validate_python(value, context=info.context)

    def _union(self, parts: Mapping[str, type[Part]]) -> CoreSchema:
        choices = {name: TypeAdapter(part).core_schema for name, part in parts.items()}
        return core_schema.tagged_union_schema(choices, discriminator=self.key)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(self._union(self.members))


def installed(group: str) -> EntryPoints:
    """The entry points of a group in all distributions on the path; nothing is imported."""
    return _installed(group, tuple(sys.path))


def distribution(point: EntryPoint) -> str:
    """The name of the distribution that offers an entry point; ours where the table made it."""
    return OURS if point.dist is None else str(point.dist.name).lower()


def where(point: EntryPoint) -> str:
    """An entry point for a reader: where its object is, and whose it is."""
    version = "" if point.dist is None else f" {point.dist.version}"
    return f"{point.value} of {distribution(point)}{version}"


@lru_cache(maxsize=32)
def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    """What is installed, looked up once for each path."""
    return entry_points(group=group)
