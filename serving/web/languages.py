"""Which language a page is in: the one that its address names, else the first that the browser asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

ENGLISH: Final = "en"

LANGUAGES: Final[Mapping[str, str]] = {
    ENGLISH: "English",
    "de": "Deutsch",
    "fr": "Français",
    "es": "Español",
}
"""The languages that there are, each with its own name for itself."""

FIELD: Final = "lang"
"""The parameter of an address that names a language, and is kept in the links of a page."""

VARIES: Final[Mapping[str, str]] = {"Vary": "Accept-Language"}

# A browser sends a handful.
_MOST_RANGES = 20


@dataclass(frozen=True)
class Chosen:
    """The language of a page.

    Attributes:
        code: of the language.
        named: whether the address names it; the links of the page then do so too.
    """

    code: str = ENGLISH
    named: bool = False

    @property
    def query(self) -> str:
        """What an address within the page has to end with."""
        return f"?{FIELD}={self.code}" if self.named else ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a page in this language."""
        return {"Content-Language": self.code, **VARIES}


def chosen_for(request: Request) -> Chosen:
    """The language of the page that answers a request; English where none that there is was asked for."""
    named = request.query_params.get(FIELD, "").strip().lower()
    if named in LANGUAGES:
        return Chosen(named, named=True)
    return Chosen(accepted(",".join(request.headers.getlist("accept-language"))))


def accepted(header: str) -> str:
    """The language that an `Accept-Language` header likes best (RFC 9110, 12.5.4).

    It is English where the header likes none that there is. A region is passed over, `de-AT` is `de`. What is
    no weight counts as none.
    """
    liked: dict[str, float] = {}
    for part in header.split(",")[:_MOST_RANGES]:
        name, _, weight = part.partition(";")
        code = name.strip().lower().partition("-")[0]
        if code in LANGUAGES:
            liked[code] = max(liked.get(code, 0.0), _weight(weight))
    best = max(liked, key=lambda code: liked[code], default=ENGLISH)
    return best if liked.get(best) else ENGLISH


def _weight(parameter: str) -> float:
    """The weight of `q=0.8`: 1 where there is none, 0 where it is no number from 0 to 1."""
    if not parameter.strip():
        return 1.0
    name, _, number = parameter.partition("=")
    try:
        weight = float(number)
    except ValueError:
        return 0.0
    return weight if name.strip().lower() == "q" and 0 <= weight <= 1 else 0.0
