"""What spreadsheets leave in cells: ids made numbers or dates, formulas that failed, words for nothing."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from clients.data.note import Note

NOTHING = ("", "nan", "none", "null", "na", "n/a")
"""How data frames and spreadsheets spell "not known" in a manifest, in any case."""

EMPTY_CELLS = ("#N/A", "#NV", "NULL", "NaN", "None", "NA", "N/A", "-", "--", "\u2013", "\u2014")
"""How exports spell it, in any case: `#NV` is German, the last two are dashes of a word processor."""

AS_TEXT = "format the column as text in the spreadsheet before it is filled, and export again"

_ROUNDED = re.compile(r"\d([.,]\d+)?[eE]\+\d+")
_FAILED = re.compile(r"#(REF|VALUE|NAME|DIV/0|NUM|NULL|BEZUG|WERT|ZAHL|VALEUR|NOM|NOMBRE)[!?]", re.IGNORECASE)
_MONTH = r"(jan|feb|m[aä]r|mrz|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zä]*\.?"
_DATE = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}([ T]00:00(:00)?)?|\d{{1,2}}([./])\d{{1,2}}\3\d{{2,4}}"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}([ -]\d{{2,4}})?|{_MONTH}[ -]\d{{2,4}}",
    re.IGNORECASE,
)


def rounded(cell: str) -> bool:
    """Whether a cell is a number that a spreadsheet shortened, `1.23E+05`: several ids become one."""
    return _ROUNDED.fullmatch(cell) is not None


def failed(cell: str) -> bool:
    """Whether a cell is the error of a formula, such as `#REF!`."""
    return _FAILED.fullmatch(cell) is not None


def cell_problem(column: str, cell: str, *, identifies: bool) -> str:
    """What a spreadsheet did to a cell that cannot be undone; nothing where it did not.

    Args:
        column: where it stands.
        cell: what it says.
        identifies: whether the column tells pictures, lesions or patients apart.
    """
    if failed(cell):
        return f"{column} {cell!r} is a formula that failed; mend it in the spreadsheet, or empty the cell"
    if identifies and rounded(cell):
        return f"{column} {cell!r} is a number that a spreadsheet rounded, so that ids become one; {AS_TEXT}"
    return ""


def notes_on_ids(name: str, cells: Sequence[tuple[int, str]]) -> list[Note]:
    """What looks wrong in a column of ids, though it may be right.

    Args:
        name: of the column.
        cells: line numbers and what the cells say.
    """
    filled = [(number, cell) for number, cell in cells if cell]
    dates = [(number, cell) for number, cell in filled if _DATE.fullmatch(cell)]
    said: list[Note] = []
    if dates:
        number, cell = dates[0]
        how_many = f"{len(dates)} of {len(filled)} cells look like dates"
        advice = f"spreadsheets make them of ids such as 3-1: if they did, {AS_TEXT}"
        said.append(
            Note(
                f"{name}: {how_many}, e.g. {cell!r} on line {number}; {advice}",
                f"a column of ids: {how_many}; {advice}",
            )
        )
    if filled and len(filled) < len(cells):
        first = next(number for number, cell in cells if not cell)
        text = (
            f"{len(cells) - len(filled)} of {len(cells)} cells are empty, the first on line {first}, and "
            "stay unknown; where cells were merged, write the value into each of them"
        )
        said.append(Note(f"{name}: {text}", f"a column of ids: {text}"))
    return said


def _counted(words: Counter[str]) -> str:
    """Words with how often each is there."""
    return " and ".join(f"{word!r} ({count})" for word, count in words.most_common())


def notes_on_words(name: str, cells: Iterable[str]) -> list[Note]:
    """Words of a column that are the same but for case: as many labels as there are spellings."""
    spellings: Mapping[str, Counter[str]] = defaultdict(Counter)
    for cell in cells:
        if cell:
            spellings[cell.casefold()][cell] += 1
    advice = (
        "differ in case only and stay different; `codes` of the adapter, or a job's `label_map`, makes "
        "them one"
    )
    return [
        Note(
            f"{name}: {_counted(words)} {advice}",
            f"{len(words)} spellings of a word {advice}",
        )
        for words in spellings.values()
        if len(words) > 1
    ]
