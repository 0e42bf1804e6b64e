"""The early refusal of a misspelt key: the settings of a job stand next to code that takes seconds to import.

pydantic's JSON Schema of them stands in `job.schema.json` (`make schema`). Only keys are looked at: all else
is for the full validation (`training.jobs.job`), which would refuse the same keys.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from registry.bundle.text import nearest
from training.errors import JobError

SCHEMA_FILE = files("training.jobs") / "job.schema.json"

Schema = Mapping[str, Any]


def refuse_unknown_keys(plain: Mapping[str, Any], path: Path) -> None:
    """Refuse a job with keys that its blocks do not have.

    Args:
        plain: what `read_plain` read.
        path: where, for messages.

    Raises:
        JobError: with one line for each such key.
    """
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    if lines := list(unknown_keys(plain, schema, schema["$defs"])):
        raise JobError(f"{path}:\n" + "\n".join(f"  {line}" for line in lines))


def unknown_keys(value: Any, schema: Schema, definitions: Schema, place: str = "") -> Iterator[str]:
    """A line for each key below `value` that no shape which it may have knows, in the order of the job."""
    shapes = list(_shapes(value, schema, definitions))
    if isinstance(value, list):
        items = {"anyOf": [shape["items"] for shape in shapes if "items" in shape]}
        for number, inner in enumerate(value):
            yield from unknown_keys(inner, items, definitions, f"{place}{number}.")
    blocks = [shape for shape in shapes if shape.get("type") == "object"]
    if not isinstance(value, dict) or not blocks:
        return
    valid = list(dict.fromkeys(key for block in blocks for key in block.get("properties", {})))
    is_open = any(block.get("additionalProperties") is not False for block in blocks)
    for key, inner in value.items():
        if key not in valid and not is_open:
            yield f"{place}{key}: unknown key `{key}`; {nearest(str(key), valid)}"
        named = [block["properties"][key] for block in blocks if key in block.get("properties", {})]
        yield from unknown_keys(inner, {"anyOf": named}, definitions, f"{place}{key}.")


def _shapes(value: Any, schema: Schema, definitions: Schema) -> Iterator[Schema]:
    """The shapes that a value may have; of parts that are distinguished by name, the one that is named."""
    if "$ref" in schema:
        yield from _shapes(value, definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    elif "discriminator" in schema:
        by = schema["discriminator"]
        name = value.get(by["propertyName"]) if isinstance(value, dict) else None
        if isinstance(name, str) and name in by["mapping"]:
            yield from _shapes(value, {"$ref": by["mapping"][name]}, definitions)
    elif "anyOf" in schema or "oneOf" in schema:
        for choice in schema.get("anyOf") or schema.get("oneOf", ()):
            yield from _shapes(value, choice, definitions)
    else:
        yield schema
