r"""Texts and names from outside: displayed without effect, compared with others that look alike, and hints.

Names of files, labels, reasons and certificates may hold anything. An escape character in one of them would
clear the screen or rename the window, a newline would end a line, a mark of direction would turn the letters
round, and letters without width would make two names look like one. On a terminal, in a page or in a log each
is displayed as Python writes it: `\x1b`. A page escapes HTML besides, which is the template's part.

A name must not look like another: `dark` with a Cyrillic `а` must be no second `dark`. Two rules follow
UTS 39 (Unicode Security Mechanisms) and are weaker. A word is of one of the scripts whose letters are drawn
like Latin ones (its "moderately restrictive" level). And two names are alike if they are equal without regard
to case and width (NFKC), or after each Greek and Cyrillic letter that is drawn like a Latin one has given way
to it. Letters of one script that look alike (`l` and `I`, `ö` and `o`) are not distinguished, nor are letters
of scripts that are not listed here.
"""

import difflib
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PAGE_FOLDER: Final = Path(__file__).parent / "page"
"""Where a template engine finds `base.css`, the style sheet that pages put into themselves."""

LONGEST: Final = 4000
"""Characters of a text on one line before its middle is left out."""

LONGEST_NAME: Final = 100
"""Characters of a name that is shown within a line; no longer one is taken today."""

# Controls but for newline and tab; what ends a line, turns the order of letters, has no width or no glyph
# (soft hyphen, marks of direction, fillers, tags, selectors but for those of emoji); halves of characters;
# what is for private use, and what is no character.
_UNSEEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
# Joiners have a meaning after letters of scripts that join, and in emoji; after others nobody sees them.
_JOINING: Final = (
    "\u0590-\u17ff\u2190-\u2bff\u2e80-\ud7ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe0f\ufe70-\ufefc"
    "\U00010000-\U0003ffff"
)
STEERS: Final = re.compile(f"[{_UNSEEN}]|(?<![{_JOINING}])[\u200c\u200d]")
"""A character that steers a terminal or is not seen, newlines and tabs left out."""

_BREAKS: Final = re.compile("[\t\n]")


def printable(text: str) -> str:
    """The text as a terminal may have it: lines and tabs stay, what steers or is not seen is spelt out."""
    return STEERS.sub(_spelt, text)


def on_one_line(text: str) -> str:
    r"""The text on one line, whatever it holds: a newline is spelt out too, as `\n`."""
    return _BREAKS.sub(_spelt, printable(text))


def shown(text: str, longest: int = LONGEST) -> str:
    """The text on one line; of one that is longer than so many characters begin, end and length."""
    if text.isascii() and text.isprintable() and len(text) <= longest:
        return text  # as most are
    if len(text) <= longest:
        return on_one_line(text)
    begin, end = text[: longest * 3 // 4], text[-(longest // 4) :]
    return f"{on_one_line(begin)} … ({len(text):,} characters) … {on_one_line(end)}"


def shown_name(text: str) -> str:
    """A name as it is shown within a line that says more: as `shown`, and short."""
    return shown(text, LONGEST_NAME)


def unseen_in(text: str) -> str | None:
    r"""The first character that steers or is not seen, spelt out; None where there is none."""
    found = STEERS.search(text) or _BREAKS.search(text)
    return None if found is None else _spelt(found)


def _spelt(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


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


def nearest(name: str, valid: Sequence[str]) -> str:
    """The hint for a misspelt name: the closest valid one, if any is close, and all valid ones."""
    close = difflib.get_close_matches(name, valid, n=1)
    allowed = ", ".join(valid) or "none"
    if close:
        return f"did you mean `{close[0]}`? valid: {allowed}"
    return f"valid: {allowed}"
