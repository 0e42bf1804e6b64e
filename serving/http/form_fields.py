"""The fields of a form as the documentation page lists them: read from the OpenAPI document alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.http.upload import FORM

Schema = Mapping[str, Any]

REQUIRED, ONE_OF_THESE, OPTIONAL = "yes", "at least one of these", "no"


@dataclass(frozen=True)
class Field:
    """A field of a form.

    Attributes:
        name: of the field.
        kind: what it holds, in a word or two.
        allowed: the values or media types that may be sent, an item each; none where any may.
        required: whether it has to be there: one of the words above.
        meaning: what it is.
    """

    name: str
    kind: str
    allowed: list[str]
    required: str
    meaning: str


def form_fields(api: Schema, operation: Schema) -> list[Field]:
    """The fields of an operation's form, in their order; none where it takes none.

    Args:
        api: the document.
        operation: one of it.
    """
    body = operation.get("requestBody", {}).get("content", {}).get(FORM)
    if body is None:
        return []
    form = resolved(api, body["schema"])
    parameters = {one["name"]: one for one in operation.get("parameters", ())}
    fields = [
        Field(
            name,
            kind_of(schema),
            _allowed(schema, body.get("encoding", {}).get(name, {})),
            _required(form, name),
            schema.get("description") or parameters.get(name, {}).get("description", ""),
        )
        for name, schema in form.get("properties", {}).items()
    ]
    further = form.get("additionalProperties")
    if isinstance(further, Mapping):
        fields.append(
            Field("(any other name)", kind_of(further), [], OPTIONAL, further.get("description", ""))
        )
    return fields


def resolved(api: Schema, schema: Schema) -> Schema:
    """The schema that a reference within the document means; any other as it is."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return api["components"]["schemas"][name] if name else schema


def kind_of(schema: Schema) -> str:
    """What a field holds, with its bounds: `1 to 8 files`, `whole number from 1 to 1000`."""
    if "anyOf" in schema:
        return " or ".join(kind_of(one) for one in schema["anyOf"] if one.get("const") != "")
    match schema.get("type"):
        case "array":
            return f"{schema.get('minItems', 0)} to {schema.get('maxItems', 'any number of')} files"
        case "string" if schema.get("format") == "binary":
            return f"file of at most {schema['maxLength']:,} bytes"
        case "integer":
            return f"whole number from {schema.get('minimum')} to {schema.get('maximum')}"
        case "string" if "maxLength" in schema:
            return f"text of at most {schema['maxLength']} characters"
        case "string":
            return "text"
    return "any"


def _allowed(schema: Schema, encoding: Schema) -> list[str]:
    if "contentType" in encoding:
        return [one.strip() for one in encoding["contentType"].split(",")]
    return [str(one) for one in schema.get("enum", ()) if one != ""]


def _required(form: Schema, name: str) -> str:
    if name in form.get("required", ()):
        return REQUIRED
    # That one of several has to be there is said as "not all of them are missing", see `asking`.
    one_of = [one["not"]["required"] for one in form.get("not", {}).get("allOf", ())]
    return ONE_OF_THESE if [name] in one_of else OPTIONAL
