r"""Texts of others on a terminal: what would steer it, or break a line, is spelt out and not obeyed.

Names of files, labels, columns and cells may hold anything. An escape character in one of them would clear
the screen or rename the window, a newline would end a line of YAML. Each is shown as Python writes it:
`\x1b`.
"""

import re
from typing import Final

# Controls but for newline and tab, halves of characters, what ends a line or turns the order of letters.
_STEERS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_BREAKS: Final = re.compile("[\t\n]")


def printable(text: str) -> str:
    r"""The text as a terminal may have it: newlines and tabs stay, other control characters are spelt out."""
    return _STEERS.sub(_spelt, text)


def on_one_line(text: str) -> str:
    r"""The text on one line, whatever it holds: a newline is spelt out too, as `\n`."""
    return _BREAKS.sub(_spelt, printable(text))


def _spelt(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
