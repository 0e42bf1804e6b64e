"""Which gate set is asked where several might be: the newest of the narrowest kind that there is."""

from collections.abc import Sequence
from typing import Final

ALL_MODELS: Final = ""
"""Whose set is asked of each model without its own."""

ALL_ALIASES: Final = ""
"""Under what a set is asked that is for no alias alone."""


def narrowest_first(model: str, alias: str) -> Sequence[tuple[str, str]]:
    """Whose sets, under which alias, are looked for: the first of these that there is counts."""
    pairs = [(whose, under) for whose in (model, ALL_MODELS) for under in (alias, ALL_ALIASES)]
    return list(dict.fromkeys(pairs))
