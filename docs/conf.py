"""The documentation site, made by Sphinx from these pages: `make docs`. Every warning is an error."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from registry.environment import own_version  # noqa: E402
from serving.http.openapi import describe, docs_page  # noqa: E402
from serving.settings import ServeSettings  # noqa: E402

project = "dermfed"
version = release = own_version()
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["results/tables"]
html_theme = "furo"
html_title = "dermfed"
html_static_path = ["_static"]
html_css_files = ["figures.css"]
html_theme_options = {"source_directory": "docs/"}
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "none"  # annotations are long, and attributes say what they are
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_ivar = True

suppress_warnings = ["ref.python"]  # client and registry both have an error NotFound
nitpicky = False


def as_written(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """A module's docstring as it stands in the file: it has equations and trees that are no markup."""
    if what == "module":
        below = [f"   {line}" for line in lines[1:]]
        lines[:] = [lines[0], "", *(["::", "", *below, ""] if any(map(str.strip, below)) else [])]


def without_defaults(
    app: object, what: str, name: str, thing: Any, options: object, signature: str | None, gives: str | None
) -> tuple[str, str | None] | None:
    """Settings by their attributes alone; as a call with all defaults nobody writes them."""
    return ("", None) if what == "class" and issubclass(thing, BaseModel) else None


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-signature", without_defaults)
    app.connect("autodoc-process-docstring", as_written)


# The interface of the service, as the service itself shows it; no page loads anything from elsewhere.
_interface = ROOT / "build" / "interface"
_interface.mkdir(parents=True, exist_ok=True)
_described = describe(ServeSettings(outcomes_url="sqlite:///outcomes.db"))
(_interface / "openapi.json").write_text(json.dumps(_described, indent=1))
(_interface / "openapi.html").write_text(docs_page(_described, "http://127.0.0.1:3000"))
html_extra_path = [str(_interface)]
