"""The documentation page: the OpenAPI document as HTML that loads nothing from anywhere."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from serving.http.form_fields import form_fields, kind_of
from serving.http.upload import FORM


def docs_page(api: dict[str, Any], base: str) -> str:
    """The HTML of the documentation page for an OpenAPI document.

    Args:
        api: the document.
        base: the service's own address, for the example.
    """
    return str(_pages().get_template("docs.html").render(api=api, base=base, form=FORM))


@cache
def _pages() -> Environment:
    """The page's template; whatever is put into it is escaped."""
    environment = Environment(
        loader=PackageLoader("serving", "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"kind": kind, "kind_of": kind_of}
    environment.globals["form_fields"] = form_fields
    return environment


def kind(schema: dict[str, Any]) -> str:
    """The type of a field by its JSON Schema, in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))
