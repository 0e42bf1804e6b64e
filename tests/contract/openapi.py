"""Reads the description of an HTTP service: its requests, and the fields of its answers."""

from collections.abc import Iterator, Mapping
from typing import Any

Description = Mapping[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def requests(description: Description) -> dict[str, Description]:
    """The described operations by name, such as `GET /livez`."""
    return {
        f"{verb.upper()} {path}": operation
        for path, verbs in description["paths"].items()
        for verb, operation in verbs.items()
        if verb in ("get", "post", "put", "patch", "delete")
    }


def resolve(description: Description, part: Description) -> Description:
    """What a part refers to, or the part itself."""
    while "$ref" in part:
        found: Any = description
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def fields(description: Description, schema: Description) -> dict[str, str]:
    """The fields of a schema with their types, by path, such as `findings[].code`.

    A type is `string`, `number or null`, the values that are allowed (`'a' | 'b'`), or `optional object` of a
    field that may be absent.
    """
    found: dict[str, tuple[bool, list[str]]] = {}

    def alternatives(part: Description) -> Iterator[Description]:
        part = resolve(description, part)
        inner = part.get("anyOf") or part.get("oneOf")
        if inner:
            for each in inner:
                yield from alternatives(each)
        else:
            yield part

    def walk(part: Description, path: str, optional: bool) -> None:
        for each in alternatives(part):
            allowed = each.get("enum", [each["const"]] if "const" in each else [])
            kind = " | ".join(map(repr, allowed)) if allowed else each.get("type", "anything")
            seen = found.setdefault(path, (optional, []))[1]
            if kind not in seen:
                seen.append(kind)
            if each.get("type") == "array":
                walk(each["items"], f"{path}[]", False)
            for name, inner in each.get("properties", {}).items():
                walk(inner, f"{path}.{name}" if path else name, name not in each.get("required", ()))

    walk(schema, "", False)
    del found[""]
    return {
        path: ("optional " if optional else "") + " or ".join(kinds)
        for path, (optional, kinds) in found.items()
    }


def values(answer: Any, path: str) -> list[Any]:
    """What an answer has at a path of `fields`; nothing where it, or what it is part of, is absent."""
    found = [answer]
    for step in path.replace("[]", ".[]").removeprefix(".").split("."):
        if step == "[]":
            found = [inner for each in found if each is not None for inner in each]
        else:
            found = [each[step] for each in found if each is not None and step in each]
    return found


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a type of `fields`."""
    for each in kind.removeprefix("optional ").split(" or "):
        if each.startswith("'"):
            if repr(value) in each.split(" | "):
                return True
        elif isinstance(value, TYPES[each]) and (each == "boolean" or not isinstance(value, bool)):
            return True
    return False
