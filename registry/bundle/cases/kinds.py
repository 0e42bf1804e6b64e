"""The kinds of picture that a lesion has, and how they are spelt elsewhere."""

from typing import Final, Literal

from registry.bundle.nearest import nearest

Kind = Literal["close-up", "dermoscopic", "overview"]

KINDS: Final[tuple[Kind, ...]] = ("close-up", "dermoscopic", "overview")
"""A close-up shows the lesion by itself, a dermoscopic picture its structure, an overview where it is."""

UNKNOWN_KIND: Final = "unknown"
"""A picture of which nobody said what kind it is."""

_OTHER_SPELLINGS: dict[str, Kind] = {
    "clinical": "close-up",
    "clinical: close-up": "close-up",
    "close up": "close-up",
    "closeup": "close-up",
    "close_up": "close-up",
    "macroscopic": "close-up",
    "dermoscopy": "dermoscopic",
    "dermatoscopic": "dermoscopic",
    "derm": "dermoscopic",
    "clinical: overview": "overview",
}


def read_kind(text: str) -> Kind | None:
    """The kind of a picture as this module spells it; None where nothing or `unknown` is said.

    Raises:
        ValueError: no such kind.
    """
    word = text.strip().lower()
    if word in ("", UNKNOWN_KIND):
        return None
    for kind in KINDS:
        if word == kind:
            return kind
    if word in _OTHER_SPELLINGS:
        return _OTHER_SPELLINGS[word]
    raise ValueError(f"there is no kind of picture {text.strip()!r}; {nearest(word, list(KINDS))}, or empty")
