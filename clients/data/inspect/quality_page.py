"""A manifest's quality as one HTML page: no script, no network, everything of the table escaped."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from clients.data.inspect.quality import ALWAYS, FEWEST_PATIENTS, TO_TELL, Quality
from clients.data.wording import LISTED
from registry.bundle.text import PAGE_FOLDER

MOST = 500  # problems of a kind that the page spells out


def quality_page(of: Quality, *, names: bool = True) -> str:
    """The page.

    Args:
        of: what is known.
        names: whether file names, and what is told with them, are on it.
    """
    return (
        _environment()
        .get_template("quality.html")
        .render(
            of=of,
            names=names,
            to_tell=TO_TELL,
            fewest=FEWEST_PATIENTS,
            listed=LISTED,
            always=ALWAYS,
            most=MOST,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([Path(__file__).parent, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
