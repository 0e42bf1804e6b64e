"""From the bytes of a table to its text: which encoding it is in, or why that cannot be told.

A byte-order mark decides, then strict UTF-8. What is left is taken for cp1252, in which Excel on Windows
saves "CSV", unless that gives words that nobody writes: then Mac OS and DOS are as likely, and whoever has
the table has to say. Central European and Cyrillic code pages look like cp1252 to any rule, so an example
of what was read goes with it.
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
_NO_TEXT = (
    (b"PK\x03\x04", "an Excel workbook (.xlsx) or a zip file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook (.xls)"),
    (b"%PDF", "a PDF"),
    (b"{\\rtf", "a text document (RTF)"),
    (b"SQLite format 3", "a database (SQLite)"),
    (b"\x1f\x8b", "a gzip file"),
)
_MARKUP = re.compile(rb"\s*<(!doctype|html|table|\?xml|meta)", re.IGNORECASE)
SAVE_AS = "open it in the spreadsheet and save it as `CSV UTF-8`"

# In cp1252 these stand between letters only where the text is of another encoding. Dashes, dots and the
# apostrophe do stand there.
_LETTER = "[A-Za-zÀ-ÖØ-öø-ÿ]"
_ODD = re.compile(
    rf"(?<={_LETTER})[^\x00-\x7f\xa0-\xff–—…’](?={_LETTER})|[¤§¶¦¬](?={_LETTER})|(?<={_LETTER})[¤§¶¦¬]"
)
_UTF8_PAIR = re.compile(rb"[\xc3-\xc5][\x80-\xbf]|\xe2\x80[\x80-\xbf]")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and ends of lines
_LINE_END = re.compile(r"\r\n|\r|\n")
_OTHERS = ("mac-roman", "cp850")
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")


class UnreadableTableError(Exception):
    """A file cannot be read as a table; its text is the reason and what to do."""


class UnknownEncodingError(UnreadableTableError):
    """The encoding of a table cannot be told, and somebody may know it."""


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
        UnreadableTableError: it is no text, is cut short, or is of an encoding that cannot be told.
    """
    for magic, what in _NO_TEXT:
        if content.startswith(magic):
            raise UnreadableTableError(f"is {what}, not a CSV file; {SAVE_AS}")
    if _MARKUP.match(content):
        raise UnreadableTableError(f"is a web page or XML, whatever its name says; {SAVE_AS}")
    marked = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is not None:
        read = TableText(_decoded(content, encoding), encoding)
    elif marked is not None:
        read = TableText(_decoded(content, marked), marked.removesuffix("-sig"))
    elif b"\x00" in content:
        line = content.count(b"\n", 0, content.index(0)) + 1
        raise UnknownEncodingError(
            f"has a NUL byte on line {line}: it is UTF-16 without a byte-order mark (utf-16-le, utf-16-be), "
            f"or damaged; {SAVE_AS}"
        )
    else:
        read = _unmarked(content)
    text = read.text.removeprefix("\ufeff").removesuffix("\x1a")  # the latter ends a file of DOS
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise UnreadableTableError(
            f"has a NUL byte on line {line}, which no table has: it is damaged or of another encoding than "
            f"{read.encoding}; export it again, and {SAVE_AS}"
        )
    _refuse_controls(text, read.encoding)
    return TableText(text, read.encoding, read.example)


def _unmarked(content: bytes) -> TableText:
    """Bytes without a mark: UTF-8, or else cp1252 where that makes sense."""
    try:
        return TableText(content.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        problem = error
    line = content.count(b"\n", 0, problem.start) + 1
    if problem.end == len(content) and "unexpected end" in problem.reason:
        raise UnreadableTableError(
            "is UTF-8 and ends in the middle of a character: it was cut short; export it again"
        )
    mixed = _UTF8_PAIR.search(content)
    if mixed is not None:
        also = content.count(b"\n", 0, mixed.start()) + 1
        raise UnreadableTableError(
            f"is UTF-8 on line {also} and something else on line {line}, as tables are that were put "
            f"together from two; export each anew, or {SAVE_AS}"
        )
    if any(mark in content for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnreadableTableError(f"is not UTF-8, and has a byte-order mark of UTF-16 within; {SAVE_AS}")
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise UnknownEncodingError(
            f"is neither UTF-8 nor cp1252 (line {content.count(bytes([10]), 0, error.start) + 1}); "
            f"{_candidates(content, error.start)}"
        ) from error
    _refuse_controls(text.removesuffix("\x1a"), "cp1252")
    if odd := _ODD.search(text):
        raise UnknownEncodingError(
            f"is not UTF-8, and its encoding cannot be told; {_candidates(content, odd.start())}"
        )
    word = _WORD.search(text[problem.start :])
    around = re.search(r"[^\s;,\t|\"]*$", text[: problem.start])
    example = f"{around[0] if around else ''}{word[0] if word else ''}"
    return TableText(text, "cp1252", re.split(r"[;,\t|\"]", example)[0])


def _refuse_controls(text: str, encoding: str) -> None:
    """Refuse what steers terminals and is no part of any word.

    Raises:
        UnreadableTableError: with the line of the first such character.
    """
    found = CONTROLS.search(text)
    if found is None:
        return
    line = len(_LINE_END.findall(text, 0, found.start())) + 1
    raise UnreadableTableError(
        f"has the control character {found[0]!r} on line {line}, which no table has: it is no text, "
        f"damaged, or of another encoding than {encoding}; take the character out, or export the table anew, "
        f"and {SAVE_AS}"
    )


def _candidates(content: bytes, place: int) -> str:
    """How each likely encoding reads the word around a byte, and what to do."""
    start = max(
        (content.rfind(mark, 0, place) for mark in (b"\n", b";", b",", b"\t", b"|", b'"')), default=-1
    )
    word = re.split(rb'[\r\n;,\t|"]', content[start + 1 : start + 60])[0]
    readings = ", ".join(
        f"{word.decode(name, errors='replace')!r} in {name}" for name in ("cp1252", *_OTHERS)
    )
    return f"a word is {readings}; {SAVE_AS}"


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except LookupError as error:
        raise UnreadableTableError(f"cannot be read: there is no encoding {encoding!r}") from error
    except UnicodeError as error:
        cut = "; it was cut short" if "truncated" in str(error) or "unexpected end" in str(error) else ""
        name = encoding.removesuffix("-sig").upper()
        raise UnreadableTableError(
            f"is not whole {name} ({error}){cut}. Export it again, and {SAVE_AS}"
        ) from error
