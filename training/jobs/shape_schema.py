"""Makes `job.schema.json`, by which `training.jobs.shape` judges a job before torch is imported.

    python -m training.jobs.shape_schema     (or `make schema`)

It is made of the classes that a job consists of, and differs from what `dermfed-train --schema` prints:

- It takes whatever these classes take: `"5"` and `true` for a number, `yes` and 1 for `true`. A field whose
  value is turned into another one first takes anything.
- Each error has one place and one reason: of parts, the one that is named is asked and no other; of several
  shapes, the one that has the value's kind or its keys; and null is looked at before the rest.
- `wanted` says in our words what may be there. `kind` and `group` say whose name a name is.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from registry.bundle.plugins import OURS, distribution, installed
from training.jobs.job import Job
from training.jobs.shape import BLOCK, LIST, SCHEMA_FILE, TEXT

WHOLE_NUMBER = r"^\s*[+-]?[0-9][0-9_]*(\.0*)?\s*$"
DIGITS = r"([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][+-]?[0-9_]+)?"
NUMBER = rf"^\s*[+-]?({DIGITS}|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*$"
TRUE = "[tT]([rR][uU][eE])?|[yY]([eE][sS])?|[oO][nN]|1"
FALSE = "[fF]([aA][lL][sS][eE])?|[nN][oO]?|[oO][fF][fF]|0"
TRUE_OR_FALSE = rf"^\s*({TRUE}|{FALSE})\s*$"
FOR_READERS = ("title", "description", "default")
AS_THEY_ARE = ("enum", "const", "required", "if", "wanted", "table")


def shape_schema() -> dict[str, Any]:
    """The JSON Schema of a job's shape, with our own words in it."""
    raw = Job.model_json_schema(schema_generator=_Lenient)
    definitions: dict[str, Any] = raw.pop("$defs")
    tables: dict[str, Any] = {}
    schema: dict[str, Any] = _simplified(raw, definitions, tables)
    simplified = {name: _simplified(each, definitions, tables) for name, each in definitions.items()}
    return schema | {"$defs": simplified | tables}


def schema_text() -> str:
    """The file's content; the same on every machine."""
    return json.dumps(shape_schema(), indent=1) + "\n"


class _Lenient(GenerateJsonSchema):
    """What a class takes, not what it should be given; unions and parts are left to `_simplified`."""

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        made = super().int_schema(schema)
        return made | {
            "type": ["integer", "boolean", "string"],
            "pattern": WHOLE_NUMBER,
            "wanted": "a whole number",
        }

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        made = super().float_schema(schema)
        return made | {"type": ["number", "boolean", "string"], "pattern": NUMBER, "wanted": "a number"}

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        return {
            "type": ["boolean", "number", "string"],
            "pattern": TRUE_OR_FALSE,
            "if": {"type": "number"},
            "then": {"enum": [0, 1], "wanted": "true or false"},
            "wanted": "true or false",
        }

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return super().str_schema(schema) | {"wanted": TEXT}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        if not all(isinstance(value, str) for value in schema["expected"]):
            return {}  # true is taken for 1
        return {"enum": list(schema["expected"])}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return {"anyOf": [self.generate_inner(schema["schema"]), {"type": "null"}]}

    def union_schema(self, schema: core_schema.UnionSchema) -> JsonSchemaValue:
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        return {"anyOf": [self.generate_inner(choice) for choice in choices]}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        if not isinstance(schema["discriminator"], str):  # by the keys that there are
            return {"anyOf": [self.generate_inner(choice) for choice in schema["choices"].values()]}
        key, told = schema["discriminator"], schema.get("metadata") or {}
        foreign = {point.name for point in installed(str(told.get("group"))) if distribution(point) != OURS}
        parts = {
            str(name): self.generate_inner(choice)
            for name, choice in schema["choices"].items()
            if name not in foreign
        }
        named = {"enum": sorted(parts), "kind": told.get("kind", key)}
        return {
            "type": "object",
            "required": [key],
            "properties": {key: named | ({"group": told["group"]} if "group" in told else {})},
            "allOf": [
                {
                    "if": {"type": "object", "required": [key], "properties": {key: {"const": name}}},
                    "then": part,
                }
                for name, part in sorted(parts.items())
            ],
            "wanted": f"{BLOCK} with `{key}`",
            "table": told.get("group"),
        }

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        return made if "properties" in made else {}  # what another form may be made into these settings

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        made = self.generate_inner(schema["schema"])
        function = schema["function"]["function"]
        # The one that changes nothing; after any other, what is checked is not what was written.
        return made if getattr(function, "__name__", "") == "_name_the_nearest_key" else {}

    def function_wrap_schema(self, schema: core_schema.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        return {}

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return {}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def _simplified(schema: Any, definitions: Mapping[str, Any], tables: dict[str, Any]) -> Any:
    """The same without what is for readers, in our words, and with each `anyOf` as questions in a row.

    Args:
        schema: of a value.
        definitions: as the classes gave them, for references.
        tables: where tables of parts are put, each once.
    """
    if isinstance(schema, list):
        return [_simplified(each, definitions, tables) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _simplified(each, definitions, tables) for name, each in value.items()}
        elif key in AS_THEY_ARE:
            made[key] = value
        elif key not in FOR_READERS:
            made[key] = _simplified(value, definitions, tables)
    if made.get("type") == "array":
        made["wanted"] = LIST
    elif made.get("type") == "object":
        made.setdefault("wanted", BLOCK)
    if "anyOf" in made:
        return _one_after_the_other(made["anyOf"], definitions)
    group = made.pop("table", None)
    if group is None:
        return made
    assert tables.setdefault(group, made) == made, f"{group} has different parts at two places"
    return {"$ref": f"#/$defs/{group}"}


def _one_after_the_other(choices: list[dict[str, Any]], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Several shapes as one question: is it null, and if not, which of them is it?"""
    flat = list(_flat(choices))
    others = [choice for choice in flat if choice != {"type": "null"}]
    if not all(others):  # one of them takes anything
        return {}
    made = others[0] if len(others) == 1 else _chosen(others, definitions)
    if len(others) == len(flat):
        return made
    if "wanted" in made:
        made = made | {"wanted": f"null, or {made['wanted']}"}
    return {"if": {"type": "null"}, "else": made}


def _flat(choices: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The choices, and those within a choice that may be null."""
    for choice in choices:
        if choice.keys() == {"if", "else"} and choice["if"] == {"type": "null"}:
            yield from (choice["else"], {"type": "null"})
        else:
            yield choice


def _chosen(choices: list[dict[str, Any]], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """One of several shapes: by the kind of value, or by the keys that it alone has."""
    if all("enum" in choice for choice in choices):
        return {"enum": [name for choice in choices for name in choice["enum"]]}
    shapes = [_resolved(choice, definitions) for choice in choices]
    kinds = [_kinds(shape) for shape in shapes]
    wanted = ", or ".join(_wanted(shape) for shape in shapes)
    if all(shape.get("additionalProperties") is False for shape in shapes):
        return _by_keys(choices, shapes)
    if any(one & other for k, one in enumerate(kinds) for other in kinds[:k]):
        return {"anyOf": choices, "wanted": wanted}
    made: dict[str, Any] = {"type": sorted(set().union(*kinds))}
    choices = [choice | {"wanted": wanted} if "enum" in choice else choice for choice in choices]
    for choice, kind in zip(reversed(choices), reversed(kinds), strict=True):
        made = {"if": {"type": sorted(kind)}, "then": choice, "else": made}
    return made | {"wanted": wanted}


def _by_keys(choices: list[dict[str, Any]], shapes: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The block that has one of the value's keys and shares it with no other; else all keys are told."""
    keys = [set(shape.get("properties", {})) for shape in shapes]
    every = sorted(set().union(*keys))
    made: dict[str, Any] = {
        "properties": dict.fromkeys(every, True),
        "additionalProperties": False,
        "type": "object",
        "wanted": f"{BLOCK} with {' or '.join(f'`{key}`' for key in every)}",
        "minProperties": 1,
    }
    for k, choice in reversed(list(enumerate(choices))):
        own = keys[k] - set().union(*keys[:k], *keys[k + 1 :])
        has_one = {"type": "object", "anyOf": [{"required": [key]} for key in sorted(own)]}
        made = {"if": has_one, "then": choice, "else": made} if own else made
    return made


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Mapping[str, Any] = definitions[reference.removeprefix("#/$defs/")]
    return found


def _wanted(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return ", ".join(shape["enum"])
    return str(shape.get("wanted") or BLOCK)


def _kinds(shape: Mapping[str, Any]) -> set[str]:
    """Which kinds of JSON value a shape takes."""
    if "enum" in shape:
        return {"string"}
    kinds = shape.get("type", ["array", "boolean", "integer", "null", "number", "object", "string"])
    return {kinds} if isinstance(kinds, str) else set(kinds)


if __name__ == "__main__":
    Path(str(SCHEMA_FILE)).write_text(schema_text(), encoding="utf-8")
