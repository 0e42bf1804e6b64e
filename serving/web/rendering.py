"""Templates, the files that pages load, shares for people, and the page of a problem."""

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader

from registry.views.tables import environment, lines_of
from serving.protocol.problems import ProblemResponse
from serving.protocol.schemas import DISCLAIMER

NOT_KNOWN = "not known"


def percent(share: float | None) -> str:
    """A share for people: whole per cents, a tenth where there is little or little missing.

    Nothing is rounded to none or to all.
    """
    if share is None:
        return NOT_KNOWN
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1 %"
    if 99.9 < value < 100:
        return "over 99.9 %"
    return "{share} %".format(share=f"{value:.1f}" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f}")


def plain(name: str) -> str:
    """A name of the vocabulary for people: `head_neck` is `head neck`."""
    return name.replace("_", " ")


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
    templates = environment(PackageLoader("serving.web", "templates"))
    templates.filters |= {"percent": percent, "line": lambda text: lines_of([text])}
    return templates


def problem_page(problem: ProblemResponse, request_id: str) -> str:
    """The page of a problem with a request."""
    return render(
        "problem.html",
        here="",
        title=problem.title,
        detail=problem.detail,
        status=problem.status,
        request_id=request_id,
    )
