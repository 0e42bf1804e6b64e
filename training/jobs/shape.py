"""The early refusal of a job of a wrong shape: a misspelt key, a wrong kind of value, a number out of range.

Everything that a job consists of lives beside its code, and that imports torch, which takes seconds. So the
shape of it all stands in `job.schema.json`, made by `training.jobs.shape_schema`. Refused is only what the
full validation (`training.jobs.job`) refuses as well, which stays the authority: what passes may still be
wrong.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs

from registry.bundle.text import nearest
from training.errors import JobError

SCHEMA_FILE = files("training.jobs") / "job.schema.json"
TEXT, LIST, BLOCK = "a text", "a list", "a block of keys and values"
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
LONGEST = 80  # characters of a value that are told

Place = tuple[str | int, ...]


def refuse_wrong_shape(plain: Mapping[str, Any], path: Path) -> None:
    """Refuse a job that the full validation would refuse for its shape.

    Args:
        plain: what `read_plain` read.
        path: where, for messages.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    if lines := wrong_shape(plain):
        raise JobError(f"{path}:\n" + "\n".join(f"  {line}" for line in lines))


def wrong_shape(plain: Mapping[str, Any]) -> list[str]:
    """One line for each thing that is wrong: where, what, and what is allowed; in the order of the job."""
    unjudged: set[Place] = set()
    judged = _as_json(plain, (), unjudged)
    schema, validator = _validator()
    try:
        errors = list(validator.iter_errors(judged))
    except ValueError:  # such as blocks within blocks within blocks: for the full validation
        return []
    lines: dict[Place, str] = {}
    missing: list[Place] = []
    for error in errors:
        place, value = _followed(judged, error.instance_path)
        if place not in unjudged:
            nodes = list(_nodes(schema, error.evaluation_path))
            for inner, line in _lines(error.kind, nodes, value):
                lines.setdefault((*place, *inner), line)
                if error.kind.name == "required":
                    missing.append((*place, *inner))
    for place in missing:  # not missing, but misspelt
        if any(f"did you mean `{place[-1]}`" in lines[other] for other in lines if other[:-1] == place[:-1]):
            del lines[place]
    order = {place: number for number, place in enumerate(_places(judged, ()))}
    told = sorted(lines, key=lambda place: (order.get(place, order[place[:-1]]), str(place[-1:])))
    return [f"{'.'.join(map(str, place)) or 'job'}: {lines[place]}" for place in told]


@lru_cache(maxsize=1)
def _validator() -> tuple[dict[str, Any], jsonschema_rs.Validator]:
    """The schema, and what judges by it."""
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema, jsonschema_rs.validator_for(schema)


def _lines(kind: Any, nodes: Sequence[Mapping[str, Any]], value: Any) -> Iterator[tuple[Place, str]]:
    """What is wrong, each with the place below the value.

    Args:
        kind: of the error.
        nodes: the schemas that led to it, the last being the one that it breaks.
        value: what was found.
    """
    node = nodes[-1]
    match kind.name:
        case "additionalProperties":
            for key in kind.unexpected:
                yield (key,), f"unknown key `{key}`; {nearest(key, list(node['properties']))}"
        case "required":
            asked = node["properties"].get(kind.property, {})
            if "kind" in asked:
                told = f"name the {asked['kind']}; {nearest('', _names(asked))}"
            else:
                told = "is missing, and has no default"
            yield (kind.property,), told
        case "enum" if "kind" in node:
            names = _names(node)
            if value not in names:
                yield (), f"unknown {node['kind']} {_quoted(value)}; {nearest(str(value), names)}"
        case "enum" if "wanted" not in node:
            yield (), f"unknown value {_quoted(value)}; {nearest(str(value), node['enum'])}"
        case _:
            asked = next(each for each in reversed(nodes) if "wanted" in each)
            yield (), f"write {_wanted(asked)}; found {_found(value)}{_quotes(asked['wanted'], value)}"


def _names(node: Mapping[str, Any]) -> list[str]:
    """The names that may be there, with those of parts that others have installed."""
    if "group" not in node:
        return list(node["enum"])
    from registry.bundle.plugins import installed  # looks through everything that is installed

    return sorted({*node["enum"], *installed(node["group"]).names})


def _wanted(node: Mapping[str, Any]) -> str:
    """What may be there, with its bounds."""
    bounds = [f"{words} {node[key]:.12g}" for key, words in BOUNDS.items() if key in node]
    if "minItems" in node and node["minItems"] == node.get("maxItems"):
        bounds = [f"{node['minItems']} values"]
    elif "minItems" in node:
        bounds = [f"at least {node['minItems']} value{'s' if node['minItems'] > 1 else ''}"]
    if node.get("type") == "string":
        bounds += [f"the form {node['pattern']}"] if "pattern" in node else []
        bounds += [f"at least {node['minLength']} characters"] if node.get("minLength", 1) > 1 else []
        bounds += [f"at most {node['maxLength']} characters"] if "maxLength" in node else []
    wanted = str(node["wanted"])
    return f"{wanted} of {' and '.join(bounds)}" if bounds else wanted


def _found(value: Any) -> str:
    """A value as a message tells it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"the block {_short(', '.join(map(str, value))) or 'without a key'}"
    if value == "":
        return "an empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return _short(repr(value))


def _quoted(value: Any) -> str:
    return f"`{_short(value)}`" if isinstance(value, str) else _found(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _quotes(wanted: str, value: Any) -> str:
    """A hint where YAML made something else of a text."""
    if TEXT not in wanted or not isinstance(value, bool | int | float):
        return ""
    read = "YAML reads yes, no, on and off as true or false; " if isinstance(value, bool) else ""
    return f"; {read}in quotes it is a text"


def _nodes(schema: Mapping[str, Any], path: Sequence[str | int]) -> Iterator[Mapping[str, Any]]:
    """The schemas on the way to a keyword, from the outermost."""
    node: Any = schema
    yield node
    for step in path[:-1]:
        node = schema["$defs"][node["$ref"].removeprefix("#/$defs/")] if step == "$ref" else node[step]
        if isinstance(node, dict):
            yield node


def _as_json(value: Any, place: Place, unjudged: set[Place]) -> Any:
    """The same in the kinds of JSON; what has none is null, and its place is put down as not judged."""
    if isinstance(value, dict):
        return {str(key): _as_json(inner, (*place, str(key)), unjudged) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner, (*place, number), unjudged) for number, inner in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        unjudged.add(place)
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and value.isprintable():
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    unjudged.add(place)  # a date, a set, bytes
    return None


def _followed(value: Any, path: Sequence[str | int]) -> tuple[Place, Any]:
    """The place that a path of the library leads to, and the value there; the key "1" is told as a number."""
    place: Place = ()
    for step in path:
        key = str(step) if isinstance(value, dict) else step
        place, value = (*place, key), value[key]
    return place, value


def _places(value: Any, place: Place) -> Iterator[Place]:
    """The places of a job, in its order."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*place, key))
