"""Templates, and the files that pages load."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from registry.bundle.message import Message
from registry.card.page import shown_text
from serving.protocol.schemas import DISCLAIMER
from serving.web.catalogue import catalogue
from serving.web.languages import LANGUAGES, Chosen
from serving.web.numbers import percent

ASSETS: Final[Mapping[str, str]] = {
    "page.css": "text/css; charset=utf-8",
    "picture.css": "text/css; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Every file that a page may load, with its media type."""


def render(
    template: str,
    chosen: Chosen | None = None,
    *,
    translated: bool = False,
    path: str = "/",
    **shown: Any,
) -> str:
    """A page; whatever is put into it is escaped, and messages are said in its language.

    Args:
        template: its name.
        chosen: the language; English where none is given.
        translated: whether the page is there in every language, so that it offers the others.
        path: where the page is in the other languages.
        shown: what the template shows.
    """
    chosen = chosen or Chosen()
    page = _templates(chosen.code).get_template(template)
    offered = LANGUAGES if translated else {}
    return str(page.render(disclaimer=DISCLAIMER, language=chosen, languages=offered, path=path, **shown))


@cache
def asset(name: str) -> bytes:
    """The content of one of `ASSETS`."""
    return (files("serving.web") / "assets" / name).read_bytes()


@cache
def _templates(language: str) -> Environment:
    """The templates, whose messages are said in a language: `_` and `ngettext` make one."""
    say, knows = catalogue(language).say, catalogue(language).knows

    def shown(value: Any) -> Any:
        return shown_text(say(value) if isinstance(value, str) else value)

    def begin(text: str) -> str:
        """A text as a sentence begins."""
        said = say(text)
        return said[:1].upper() + said[1:]

    def lang(text: str) -> Markup:
        """The attribute of an element whose text is English where the page is not."""
        return Markup("") if knows(text) else Markup(' lang="en"')

    environment = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("serving.web", "templates"),
                PrefixLoader({"card": PackageLoader("registry.card", ".")}),
            ]
        ),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "begin": begin}
    environment.globals |= {"_": Message, "ngettext": Message.counted, "lang": lang}
    return environment
