"""From the bytes of a table to its text: which encoding it is in, or why it is no text.

A byte-order mark decides, then strict UTF-8. What is left is taken for cp1252, in which Excel on Windows
saves "CSV". Other code pages look like cp1252 to any rule, so an example of what was read goes with it.
"""

import codecs
import re
from dataclasses import dataclass

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like UTF-16's mark, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SAVE_AS = "open it in the spreadsheet and save it as `CSV UTF-8`"
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and ends of lines
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(r"[^\s;,\t|\"]*[^\x00-\x7f][^\s;,\t|\"]*")


class UnreadableTableError(Exception):
    """A file cannot be read as a table; its text is the reason and what to do."""


class UnknownEncodingError(UnreadableTableError):
    """A table is not of the encoding that it shows, and somebody may know which it is."""


@dataclass(frozen=True)
class TableText:
    """The text of a table.

    Attributes:
        text: without a byte-order mark at its start.
        encoding: what it was taken for.
        example: a word that another encoding would have read otherwise; empty where the encoding is certain.
    """

    text: str
    encoding: str
    example: str = ""


def decode_table(content: bytes, encoding: str | None = None) -> TableText:
    """The text that `content` is, in `encoding` or in the one that it shows.

    Raises:
        UnreadableTableError: it is no text, or not of that encoding.
    """
    example = ""
    if encoding is not None:
        text, named = _decoded(content, encoding), encoding
    elif marked := next((name for mark, name in _MARKS if content.startswith(mark)), None):
        text, named = _decoded(content, marked), marked.removesuffix("-sig")
    else:
        try:
            text, named = content.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, named = _decoded(content, "cp1252"), "cp1252"
            word = _WORD.search(text)
            example = word[0] if word else ""
    text = text.removeprefix("\ufeff").removesuffix("\x1a")  # the latter ends a file of DOS
    _refuse_controls(text, named)
    return TableText(text, named, example)


def _refuse_controls(text: str, encoding: str) -> None:
    """Refuse what steers terminals and is no part of any word.

    Raises:
        UnknownEncodingError: with the line of the first such character.
    """
    found = CONTROLS.search(text)
    if found is None:
        return
    line = len(_LINE_END.findall(text, 0, found.start())) + 1
    raise UnknownEncodingError(
        f"has the control character {found[0]!r} on line {line}, which no table has: it is no text, "
        f"damaged, or of another encoding than {encoding}; take the character out, or export the table anew, "
        f"and {SAVE_AS}"
    )


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except LookupError as error:
        raise UnreadableTableError(f"cannot be read: there is no encoding {encoding!r}") from error
    except UnicodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise UnknownEncodingError(
            f"is not whole {name} ({error}). Export it again, and {SAVE_AS}"
        ) from error
