"""Names that look like others: `dark` with a Cyrillic `а` must be no second `dark`.

Two rules, after UTS 39 (Unicode Security Mechanisms) and weaker than it. A word is of one of the scripts
whose letters are drawn like Latin ones (its "moderately restrictive" level). And two names are alike if
they are equal without regard to case and width (NFKC), or after each Greek and Cyrillic letter that is drawn
like a Latin one has given way to it. Letters of one script that look alike (`l` and `I`, `ö` and `o`) are not
told apart, nor are letters of scripts that are not listed here.
"""

import re
import unicodedata
from typing import Final

_DRAWN_ALIKE: Final = ("LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU")
"""Scripts with letters drawn like those of another, as the names of their letters begin."""

_LATIN: Final = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухһԁԛԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυ",
    "ABESIJKMHOPCTYXaesijopcyxhdqw" + "ABEZHIKMNOPTYXaivopu",
)
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def mixed_word(name: str) -> str | None:
    """The first word of a name with letters of two scripts that are drawn alike; None where there is none."""
    for word in _BETWEEN_WORDS.split(unicodedata.normalize("NFKC", name)):
        if len({script for one in word if (script := _script(one)) in _DRAWN_ALIKE}) > 1:
            return word
    return None


def alike(one: str, other: str, *, cased: bool = False) -> bool:
    """Whether people would take two different names for one.

    Args:
        one: a name.
        other: another.
        cased: whether `A` and `a` are two.
    """
    return one != other and bool(_looks(one, cased) & _looks(other, cased))


def _looks(name: str, cased: bool) -> set[str]:
    plain = unicodedata.normalize("NFKC", name)
    drawn = plain.translate(_LATIN)
    return {plain, drawn} if cased else {plain.casefold(), drawn.casefold()}


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
