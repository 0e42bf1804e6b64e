"""Templates, and the files that pages load."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from registry.card.page import shown_text
from serving.protocol.schemas import DISCLAIMER

ASSETS: Final[Mapping[str, str]] = {
    "page.css": "text/css; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Every file that a page may load, with its media type."""


def render(template: str, **shown: Any) -> str:
    """A page; whatever is put into it is escaped."""
    return str(_templates().get_template(template).render(disclaimer=DISCLAIMER, **shown))


@cache
def asset(name: str) -> bytes:
    """The content of one of `ASSETS`."""
    return (files("serving.web") / "assets" / name).read_bytes()


def percent(share: float | None) -> str:
    """A share for people: whole per cents, a tenth where there is little or little missing.

    Nothing is rounded to none or to all.
    """
    if share is None:
        return "not known"
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1 %"
    if 99.9 < value < 100:
        return "over 99.9 %"
    return f"{value:.1f} %" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f} %"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("serving.web", "templates"),
                PrefixLoader({"card": PackageLoader("registry.card", ".")}),
            ]
        ),
        autoescape=True,
        finalize=shown_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment
