"""Adapters: ways from a folder to a manifest. The table of what a job may name."""

import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.csv_table import CsvTable
from clients.data.adapters.derm7pt import Derm7pt
from clients.data.adapters.fitzpatrick17k import Fitzpatrick17k
from clients.data.adapters.layouts import ImageFolder, MedMnist, Synthetic
from clients.data.adapters.lesion_tables import Ham10000, Isic2019, Isic2020, Milk10k, PadUfes20
from clients.data.adapters.scin import Scin
from clients.data.errors import AdapterError
from registry.bundle.errors import PartError
from registry.bundle.plugins import PartTable
from registry.bundle.text import nearest

ADAPTERS: PartTable[Adapter] = PartTable(
    "adapter",
    CsvTable,
    Derm7pt,
    Fitzpatrick17k,
    Ham10000,
    ImageFolder,
    Isic2019,
    Isic2020,
    MedMnist,
    Milk10k,
    PadUfes20,
    Scin,
    Synthetic,
    base=Adapter,
)


def adapter_names() -> list[str]:
    """The names of all adapters that are installed."""
    return sorted(ADAPTERS.names)


def find_adapter(name: str) -> type[Adapter]:
    """The adapter called `name`; ours cannot be replaced by another package's.

    Raises:
        AdapterError: no such adapter, or what a package offers under the name cannot be used.
    """
    if name not in ADAPTERS.names:
        raise AdapterError(f"there is no adapter {name!r}; {nearest(name, adapter_names())}")
    try:
        return ADAPTERS.find(name)
    except PartError as error:
        raise AdapterError(str(error)) from error


def make_adapter(name: str, options: Mapping[str, Any]) -> Adapter:
    """The adapter called `name` with `options`.

    Raises:
        AdapterError: no such adapter, or options that it does not take.
    """
    kind = find_adapter(name)
    try:
        return kind.model_validate({"name": name, **options})
    except ValidationError as error:
        wrong = [": ".join((*map(str, item["loc"]), item["msg"])) for item in error.errors()]
        raise AdapterError(f"options of adapter {name!r}: {'; '.join(wrong)}") from error


_ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^[ ]{4}(\w+): (.*(?:\n[ ]{8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class AdapterOption:
    """One option of an adapter.

    Attributes:
        name: what `--option` and a job call it.
        required: whether it must be given.
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
    schema = kind.model_json_schema()
    fields = sorted(kind.model_fields, key=lambda name: name not in kind.__annotations__)
    return tuple(
        AdapterOption(
            name=name,
            required=name in schema.get("required", ()),
            default=schema["properties"][name].get("default"),
            values=tuple(schema["properties"][name].get("enum", ())),
            meaning=meanings.get(name, ""),
        )
        for name in fields
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
