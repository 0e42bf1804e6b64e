"""Templates, and the files that pages load."""

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader

from registry.views.tables import PAGE_OPTIONS
from serving.protocol.schemas import DISCLAIMER
from serving.web.numbers import percent

ASSETS: Final[Mapping[str, str]] = {
    "page.css": "text/css; charset=utf-8",
    "picture.css": "text/css; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Every file that a page may load, with its media type."""


MOUNTED_AT: ContextVar[str] = ContextVar("MOUNTED_AT", default="")
"""The path under which the service is for the request that is being answered; before every link of a page."""


def render(template: str, **shown: Any) -> str:
    """The page of a template; whatever is put into it is escaped."""
    return str(
        _templates().get_template(template).render(disclaimer=DISCLAIMER, root=MOUNTED_AT.get(), **shown)
    )


@cache
def asset(name: str) -> bytes:
    """The content of one of `ASSETS`."""
    return (files("serving.web") / "assets" / name).read_bytes()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("serving.web", "templates"),
                PrefixLoader({"views": PackageLoader("registry.views", ".")}),
            ]
        ),
        **PAGE_OPTIONS,
    )
    environment.filters |= {"percent": percent}
    return environment
