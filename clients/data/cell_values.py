"""Cells whose values cannot be read: grouped by value, with a proposal of what each may mean.

Ages come as bins (`80-84`), open ends (`85+`), with a decimal comma or as DICOM writes them (`085Y`, `018M`);
sexes and sites come in other languages. Nothing of this is read silently: each value is listed with the
number of its pictures, and with the option `codes` of `dermfed-data import csv` that maps them all.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from clients.data.manifest import IMAGE_KIND, Row
from registry.bundle.cases import KNOWN, CategoryFact, canonical, read_kind

EXAMPLES = 3  # pictures that a line names
DAYS_IN_YEAR = 365.25

_NUMBER = r"0*(\d{1,3}(?:[.,]\d+)?)"
_AGES: tuple[tuple[str, float], ...] = (
    (r"(?:y|yr|yrs|years?|years? old|j|jahre?|jahre? alt|jährig|a|ans?|años)?", 1.0),
    (r"(?:m|mo|months?|monate?|mois|meses)", 12.0),
    (r"(?:w|weeks?|wochen?)", DAYS_IN_YEAR / 7),
    (r"(?:d|days?|tage?)", DAYS_IN_YEAR),
)
_OPEN = re.compile(rf"(?:>=?|≥|<=?|≤|over|under|über|unter|ab|bis)?\s*{_NUMBER}\s*\+?")
_RANGE = re.compile(rf"{_NUMBER}\s*(?:-|–|—|to|bis)\s*{_NUMBER}")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "sex": {
        "female": "f w woman weibl weiblich frau femme féminin femenino mujer",
        "male": "m man männl männlich mann homme masculin masculino hombre",
    },
    "site": {
        "head_neck": "kopf gesicht hals nacken kopfhaut nase ohr lippe stirn wange cabeza cara tête visage",
        "trunk": "rumpf stamm rücken brust bauch schulter flanke gesäss tronco espalda tronc dos",
        "upper_extremity": "arm arme oberarm unterarm ellenbogen brazo bras",
        "lower_extremity": "bein beine oberschenkel unterschenkel knie pierna jambe",
        "hand": "hand hände handrücken finger daumen mano main doigt dedo",
        "foot": "fuss füsse fuesse fussrücken zehe zehen pie pied orteil",
        "palms_soles": "fusssohle sohle handfläche handinnenfläche planta palma paume",
        "oral_genital": "mund mundschleimhaut zunge genitale genitalbereich boca bouche",
    },
}
_TYPE = re.compile(r"(?:(?:fitzpatrick|fst|skin|haut|photo|type?|tipo)[\s:-]*)+([ivx]+|\d+)")


class UnreadCells:
    """Values that cannot be read, by column, with the pictures that have them."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[str, list[str]]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        """By column and value what each may mean; empty for not known."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self,
        column: str,
        value: str,
        reason: str,
        image: str,
        *,
        mapped: bool = True,
        means: str | None = None,
    ) -> None:
        """Note a value that cannot be read, why, of which picture, whether `codes` may map it and to what."""
        self._found.setdefault((column, value), (reason, []))[1].append(image)
        if mapped and value.casefold() not in map(str.casefold, self.codes.get(column, {})):
            self.codes.setdefault(column, {})[value] = propose(column, value) if means is None else means

    @property
    def lines(self) -> list[str]:
        """A line for each value of each column, with how many pictures have it, the most frequent first."""
        ordered = sorted(self._found.items(), key=lambda item: (item[0][0], -len(item[1][1])))
        return [f"{reason}: {pictures(images)}" for _, (reason, images) in ordered]


def unread_facts(rows: Iterable[Row], found: UnreadCells) -> UnreadCells:
    """Adds what ages, sexes, sites and kinds of picture of a manifest cannot be read as facts of a lesion."""
    readers: dict[str, Callable[[str], object]] = {name: fact.read for name, fact in KNOWN.items()}
    readers[IMAGE_KIND] = read_kind
    for row in rows:
        for column, read in readers.items():
            value = row.value(column)
            try:
                read(value)
            except ValueError as error:
                found.add(column, value, str(error), row.image)
    return found


def codes_option(
    codes: Mapping[str, Mapping[str, str]], known: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """The option of `dermfed-data import csv` that maps values, quoted for a shell: a proposal to check.

    Args:
        codes: by column and value what each may mean.
        known: what the option says already, which is kept: given twice, only the last one would count.
    """
    before = known or {}
    both = {
        name: {**before.get(name, {}), **codes.get(name, {})} for name in dict.fromkeys([*before, *codes])
    }
    return f"--option {shlex.quote(f'codes={json.dumps(both, ensure_ascii=False)}')}"


def proposal(
    codes: Mapping[str, Mapping[str, str]], known: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """`codes_option`, and below it which values it makes not known."""
    lost = [f"{name} {value!r}" for name, of in codes.items() for value, means in of.items() if not means]
    said = f"\nof these it makes not known: {', '.join(lost)}" if lost else ""
    return f"{codes_option(codes, known)}{said}"


def pictures(images: list[str]) -> str:
    """How many pictures there are, and the first of them."""
    more = ", ..." if len(images) > EXAMPLES else ""
    return f"{len(images)} picture{'' if len(images) == 1 else 's'} ({', '.join(images[:EXAMPLES])}{more})"


def propose(column: str, value: str) -> str:
    """What a value may mean; empty where nothing is proposed, which is read as not known.

    A diagnosis stays what it is. Of an age bin the middle, of an open end its bound, of months, weeks and
    days the years; of a site or sex what all of its words mean that are known; of `Typ II` the type.
    """
    word = value.strip().casefold().rstrip(".")
    if column == "label":
        return value
    if column == "skin_tone":
        return found[1].upper() if (found := _TYPE.fullmatch(word)) else ""
    if column != "age":
        meanings = {code for part in re.findall(r"\w+", word) if (code := _meaning(column, part))}
        return meanings.pop() if len(meanings) == 1 else ""
    if found := _RANGE.fullmatch(word):
        return _in_bounds((_number(found[1]) + _number(found[2])) / 2)
    for unit, in_a_year in _AGES:
        if found := re.fullmatch(rf"{_NUMBER}\s*{unit}", word):
            return _in_bounds(_number(found[1]) / in_a_year)
    if found := _OPEN.fullmatch(word):
        return _in_bounds(_number(found[1]))
    return ""


def _meaning(column: str, word: str) -> str:
    """What one word of a site or sex means; empty where it is not known."""
    for code, words in _WORDS.get(column, {}).items():
        if word in words.split():
            return code
    fact = KNOWN.get(column)
    spelt = canonical(column, word)
    return spelt if isinstance(fact, CategoryFact) and spelt in fact.values else ""


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _in_bounds(years: float) -> str:
    age = KNOWN["age"]
    text = f"{round(years, 2):g}"
    try:
        age.read(text)
    except ValueError:
        return ""
    return text
