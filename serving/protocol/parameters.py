"""The parameters of a diagnosis request, read from the query and the form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.bundle.nearest import nearest
from registry.bundle.skin_tone.scales import SCALES, read_scale, read_tone
from serving.protocol.problems import InvalidParameter

NAMES: Final = ("skin_tone", "skin_tone_scale", "model", "top")
DEFAULT_SCALE: Final = "fitzpatrick"
MAX_TOP: Final = 1000

# Nothing that is valid is longer; what is longer need not be quoted whole.
_LONGEST = 200


@dataclass(frozen=True)
class Parameters:
    """The validated parameters of a diagnosis request.

    Attributes:
        skin_tone: the declared tone as the scale spells it; None where none was declared.
        skin_tone_scale: its scale.
        model: the model asked for, if any.
        top: how many findings to list; None for all.
    """

    skin_tone: str | None = None
    skin_tone_scale: str = DEFAULT_SCALE
    model: str | None = None
    top: int | None = None


def read_parameters(query: Sequence[tuple[str, str]], form: Mapping[str, str]) -> Parameters:
    """Reads and validates the parameters of a request; an empty value counts as none.

    Raises:
        InvalidParameter: an unknown name, one given twice, or a value that is not allowed.
    """
    given: dict[str, str] = {}
    for name, value in [*query, *form.items()]:
        if name not in NAMES:
            shown = name[:_LONGEST]
            raise InvalidParameter(f"there is no parameter `{shown}`; {nearest(shown, NAMES)}")
        if name in given:
            raise InvalidParameter(f"`{name}` is given twice; give it once")
        given[name] = value.strip()[:_LONGEST]
    tone, scale = _tone(given.get("skin_tone", ""), given.get("skin_tone_scale", ""))
    return Parameters(tone, scale, given.get("model") or None, _top(given.get("top", "")))


def _tone(tone: str, scale: str) -> tuple[str | None, str]:
    try:
        name = read_scale(scale or DEFAULT_SCALE)
        return (read_tone(tone, name) if tone else None), name
    except ValueError as error:
        raise InvalidParameter(str(error)) from error


def _top(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_TOP):
        raise InvalidParameter(f"`top` is {text[:40]!r}; it is a whole number from 1 to {MAX_TOP}")
    return int(text)


def scales() -> dict[str, tuple[str, ...]]:
    """Every skin tone scale with its values, for the description of the interface."""
    return dict(SCALES)
