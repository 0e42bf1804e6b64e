"""Which messages there are: found in the code and in the templates of pages that are translated.

`make catalogues` writes the new ones into the catalogues, for translators, and takes out those that are gone.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po
from jinja2 import Environment
from jinja2.ext import extract_from_ast

from registry.bundle.message import Message
from serving.web.catalogue import read_catalogue
from serving.web.languages import ENGLISH, LANGUAGES

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("registry", "serving")
TEMPLATES: Final = (
    *("answer.html", "base.html", "diagnosis.html", "looking.html", "outcome_form.html", "picture.html"),
    *("problem.html", "trouble.html"),
)
"""The templates of pages that are there in every language; all others are English."""

Found = str | tuple[str, str]
"""What is translated: a sentence, or that of one thing and that of many."""


def messages() -> set[Found]:
    """Every message of this checkout."""
    found: set[Found] = set()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            found.update(in_code(path.read_text(encoding="utf-8")))
    for name in TEMPLATES:
        path = ROOT / "serving" / "web" / "templates" / name
        found.update(in_template(path.read_text(encoding="utf-8")))
    return found


def in_code(code: str) -> Iterator[Found]:
    """The messages of a module: the first string of `Message`, the first two of `Message.counted`."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        texts = [
            one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        match node.func:
            case ast.Name(id=Message.__name__) if texts:
                yield texts[0]
            case ast.Attribute(value=ast.Name(id=Message.__name__), attr=Message.counted.__name__):
                yield texts[0], texts[1]


def in_template(template: str) -> Iterator[Found]:
    """The messages of a template: the strings of `_` and `ngettext`."""
    for _, _, found in extract_from_ast(Environment().parse(template), ("_", "ngettext")):
        match found:
            case str(text) | (str(text), None, *_):
                yield text
            case (str(one), str(many), *_):
                yield one, many


def updated(language: str) -> Catalog:
    """The catalogue of a language with every message that there is, and no other."""
    catalogue, there = read_catalogue(language), messages()
    for old in [one.id for one in catalogue if one.id]:
        if (tuple(old) if isinstance(old, list | tuple) else old) not in there:
            catalogue.delete(old)
    for found in there:
        if found not in catalogue:
            catalogue.add(found)
    return catalogue


def main() -> None:
    """Rewrites the catalogues of this checkout."""
    for language in LANGUAGES:
        if language != ENGLISH:
            catalogue = updated(language)
            with (ROOT / "serving" / "web" / "catalogues" / f"{language}.po").open("wb") as file:
                write_po(file, catalogue, width=110, sort_output=True, omit_header=False)


if __name__ == "__main__":
    main()
