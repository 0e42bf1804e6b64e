"""What is written from the definition of a diagnosis: its part of `docs/service.md`, and the client's types.

`python -m serving.http.codegen` rewrites both in a checkout, between two lines that say so. The client
imports nothing of ours, so its types stand in a file of its own, under the names that apps know.
"""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from serving.http.docs_page import kind
from serving.http.examples import diagnoses
from serving.protocol.fields import Fact, facts, part_of
from serving.protocol.schemas import AnsweringModel, Diagnosis, Finding, MalignancyRisk

BEGIN: Final = "Written by `python -m serving.http.codegen`, down to END."
END: Final = "END of what `python -m serving.http.codegen` writes."

NAMES: Final[Mapping[type[BaseModel], str]] = {
    AnsweringModel: "ModelUsed",
    Finding: "Finding",
    MalignancyRisk: "Malignancy",
}
"""What the client calls a part, where that is another name than ours."""

_SIMPLE: Final[Mapping[Any, str]] = {
    str: "str",
    int: "int",
    bool: "bool",
    float: "FiniteFloat",
    datetime: "AwareDatetime",
    NoneType: "None",
}
_WIDTH: Final = 110


def documented(diagnosis: type[BaseModel] = Diagnosis) -> str:
    """The example and the table of fields in `docs/service.md`."""
    shown = diagnoses()["report"].model_dump(mode="json").items()
    lines = [f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in shown]
    rows = [f"| `{path}` | {type_} | {meaning} |" for path, type_, meaning in _rows(diagnosis)]
    table = "\n".join(["| field | type | what it is |", "| --- | --- | --- |", *rows])
    return "```json\n{" + ",\n ".join(lines) + "}\n```\n\n" + table + "\n"


def client_types(diagnosis: type[BaseModel] = Diagnosis) -> str:
    """The classes of `clients/api/diagnosis.py`, parts before what they are parts of."""
    return "\n\n".join(_client_class(part) for part in dict.fromkeys(_parts(diagnosis)))


def rewritten(text: str, block: str) -> str:
    """A text with another block between its two lines.

    Raises:
        ValueError: the lines are not there.
    """
    first, begin, rest = text.partition(BEGIN)
    old, end, last = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no block to write: put a line with {BEGIN!r} and one with {END!r} there")
    opening, closing = old.split("\n", 1)[0], old.rsplit("\n", 1)[-1]
    return f"{first}{begin}{opening}\n{block}{closing}{end}{last}"


FILES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/service.md": lambda: "\n" + documented() + "\n",
    "clients/api/diagnosis.py": lambda: "\n\n" + client_types() + "\n",
}
"""The files in which something is written, each with what."""


def _rows(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of every field, parts after their own row."""
    schema = model.model_json_schema(mode="serialization")["properties"]
    for name, field, fact in facts(model):
        part = part_of(field.annotation)
        many = "[]" if get_origin(field.annotation) is list else ""
        type_ = ("list" if many else "object") if part else kind(schema[name])
        yield path + name + many, type_.replace(" | ", ", "), fact.meaning
        if part:
            yield from _rows(part, f"{path}{name}{many}.")


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for _, field, _ in facts(model):
        if part := part_of(field.annotation):
            yield from _parts(part)
    yield model


def _client_class(model: type[BaseModel]) -> str:
    """One class: its docstring of the meanings, its fields of the types."""
    said = facts(model)
    docstring = [*_wrapped((model.__doc__ or "").split("\n")[0], 4, '"""'), "", "    Attributes:"]
    for name, _, fact in said:
        docstring += _wrapped(f"{name}: {_client_meaning(fact)}.", 8)
    fields = [f"    {name}: {_client_field(field.annotation, fact)}" for name, field, fact in said]
    return "\n".join([f"class {_client_name(model)}(_Part):", *docstring, '    """', "", *fields, ""])


def _wrapped(text: str, indent: int, before: str = "") -> list[str]:
    return textwrap.wrap(
        before + text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if before else indent + 4),
        break_on_hyphens=False,
    )


def _client_meaning(fact: Fact) -> str:
    return f"{fact.meaning}; not there where an older service answered" if fact.later else fact.meaning


def _client_field(annotation: Any, fact: Fact) -> str:
    """A field's type, with what stands for it where an older service does not say it."""
    type_ = _client_type(annotation)
    if not fact.later:
        return type_
    if type_.startswith("tuple["):
        return f"{type_} = ()"
    return f"{type_} = None" if type_.endswith("| None") else f"{type_} | None = None"


def _client_type(annotation: Any) -> str:
    """A type as the client has it: what cannot be changed, and no number that is none."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    inner = get_args(annotation)
    match get_origin(annotation):
        case kind_ if kind_ is Literal:
            return f"Literal[{', '.join(json.dumps(one) for one in inner)}]"
        case kind_ if kind_ is list:
            return f"tuple[{_client_type(inner[0])}, ...]"
        case kind_ if kind_ is dict:
            return f"Mapping[{', '.join(map(_client_type, inner))}]"
        case kind_ if kind_ in (UnionType, Union):
            return " | ".join(map(_client_type, inner))
    if part := part_of(annotation):
        return _client_name(part)
    raise TypeError(f"the client has no type for {annotation}; say here which it is to be")


def _client_name(model: type[BaseModel]) -> str:
    return NAMES.get(model, model.__name__)


def main() -> None:
    """Rewrites the files of this checkout."""
    root = Path(__file__).parents[2]
    for name, block in FILES.items():
        path = root / name
        path.write_text(rewritten(path.read_text(encoding="utf-8"), block()), encoding="utf-8")


if __name__ == "__main__":
    main()
