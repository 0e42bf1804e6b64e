"""The options of an adapter in words: from its fields, and from what its docstring says of them."""

import inspect
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from clients.data.adapters.adapter import Adapter

_ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^[ ]{4}(\w+): (.*(?:\n[ ]{8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class AdapterOption:
    """One option of an adapter.

    Attributes:
        name: what `--option` and a job call it.
        required: whether it has to be given.
        default: its value where it is not given, as JSON writes it.
        values: those that it may have, where they are few.
        meaning: what it does.
    """

    name: str
    required: bool
    default: Any
    values: tuple[str, ...]
    meaning: str


def adapter_options(kind: type[Adapter]) -> tuple[AdapterOption, ...]:
    """The options that an adapter takes, in the order in which it declares them; inherited ones last."""
    meanings: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        meanings |= _meanings(inspect.cleandoc(each.__doc__ or ""))
    fields = sorted(kind.model_fields.items(), key=lambda item: item[0] not in kind.__annotations__)
    return tuple(
        AdapterOption(
            name=name,
            required=field.is_required(),
            default=None if field.default is PydanticUndefined else _plain(field.default),
            values=_values(field.annotation),
            meaning=meanings.get(name, ""),
        )
        for name, field in fields
        if name != "name"
    )


def describe_adapter(name: str, kind: type[Adapter], *, width: int = 100) -> str:
    """An adapter and its options, one below the other, for people."""
    first = (inspect.getdoc(kind) or "").split("\n\n")[0]
    lines = textwrap.wrap(f"{name}: {' '.join(first.split())}", width, subsequent_indent="  ")
    options = adapter_options(kind)
    for option in options:
        given = "(needed)" if option.required else f"= {json.dumps(option.default, ensure_ascii=False)}"
        one_of = f" [{', '.join(option.values)}]" if option.values else ""
        text = f"{option.name} {given}{one_of}: {option.meaning}"
        lines += textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines if options else [*lines, "    no options"])


def _meanings(docstring: str) -> dict[str, str]:
    """What a docstring says below `Attributes:`, by attribute."""
    found = _ATTRIBUTES.search(f"{docstring}\n")
    if found is None:
        return {}
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(found[1])}


def _values(annotation: Any) -> tuple[str, ...]:
    return tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()


def _plain(value: Any) -> Any:
    """A default as JSON has it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value
