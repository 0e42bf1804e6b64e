"""Tables of interchangeable parts: aggregators, objectives, syncs, exchanges, stages.

A part is a frozen config that knows how to do its job. A table holds ours and finds other people's
through an entry-point group such as `dermfed.aggregators`, so that a part from another distribution is
named in a job file like one of our own. Used as an annotation, `Annotated[Aggregator, AGGREGATORS]`, a
table tells pydantic which classes a job may name.
"""

from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from registry.bundle.nearest import nearest
from training.config import FrozenConfig

Part = TypeVar("Part", bound=FrozenConfig)


class PartTable(Generic[Part]):
    """The parts of one kind, by name.

    Args:
        kind: what they are, as a user would say it ("aggregator").
        own: our members.
        key: the field whose literal value is the part's name in a job file.
        plural: of `kind`, for the entry-point group, where it is not `kind` and an s.
    """

    def __init__(self, kind: str, *own: type[Part], key: str = "name", plural: str | None = None) -> None:
        self.kind = kind
        self.key = key
        self.group = f"dermfed.{plural or kind + 's'}"
        self._own = own

    @cached_property
    def members(self) -> dict[str, type[Part]]:
        """Every known part by its name; raises ValueError when two claim one name."""
        found: dict[str, type[Part]] = {}
        outside = [point.load() for point in entry_points(group=self.group)]
        for part in (*self._own, *outside):
            name = part.model_fields[self.key].default
            if found.setdefault(name, part) is not part:
                raise ValueError(
                    f"two {self.kind}s are called {name}: {found[name].__module__} and {part.__module__}"
                )
        return found

    def _check_name(self, value: Any) -> Any:
        if isinstance(value, dict):
            name = value.get(self.key)
            if name not in self.members:
                raise PydanticCustomError(
                    "unknown_part",
                    "unknown {kind} `{name}`; {hint}" if name else "name the {kind} by its `{key}`; {hint}",
                    {
                        "kind": self.kind,
                        "key": self.key,
                        "name": str(name),
                        "hint": nearest(str(name), sorted(self.members)),
                    },
                )
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {name: handler.generate_schema(part) for name, part in self.members.items()}
        union = core_schema.tagged_union_schema(choices, discriminator=self.key)
        return core_schema.no_info_before_validator_function(self._check_name, union)
