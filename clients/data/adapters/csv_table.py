"""Any table with one line per picture: the options say which column holds what.

The folder holds the table and the pictures, unpacked or in zip files. docs/data-sets.md has
the options for Diverse Dermatology Images (DDI), the Kaggle diabetic retinopathy pictures and COVID-FL.

Diagnoses that are not codes are listed with the code that published data sets, or four languages, have for
the name. What is not known is never guessed at.
"""

import codecs
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import field_validator, model_validator

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.derm7pt import CODES as DERM7PT_CODES
from clients.data.adapters.lesion_tables import HAM10000_CODES, ISIC2020_CODES, PAD_UFES_20_CODES
from clients.data.adapters.published import Line, counted_once, images_of, read_table, refuse_unnamed
from clients.data.cell_values import UnreadCells, proposal, propose, unread_facts
from clients.data.delimited import AS_TEXT, DELIMITERS, EMPTY_CELLS, rounded
from clients.data.errors import AdapterError
from clients.data.manifest import COLUMNS, Manifest, Row
from clients.data.output import Note, listing
from clients.data.taxonomy import BENIGN, MALIGNANT, TAXONOMY, describe
from registry.bundle.cases import SEX
from registry.bundle.skin_tone import read_scale, read_tone
from registry.bundle.text import nearest

_NAMES: Mapping[str, tuple[str, ...]] = {
    "MEL": ("melanom", "malignes melanom", "mélanome", "melanoma maligno"),
    "NV": (
        *("naevus", "melanocytic naevus", "nävus", "nävuszellnävus", "melanozytärer nävus"),
        *("naevus mélanocytaire", "nevo", "nevo melanocítico"),
    ),
    "BCC": ("basalzellkarzinom", "basaliom", "carcinome basocellulaire", "carcinoma basocelular"),
    "SCC": (
        *("squamous cell carcinoma", "plattenepithelkarzinom", "spinaliom", "carcinome épidermoïde"),
        *("carcinoma espinocelular", "carcinoma epidermoide"),
    ),
    "AK": ("actinic keratosis", "aktinische keratose", "kératose actinique", "queratosis actínica"),
    "BKL": (
        *("seborrhoeic keratosis", "seborrhoische keratose", "kératose séborrhéique"),
        "queratosis seborreica",
    ),
    "DF": ("dermatofibrom", "dermatofibrome"),
    "VASC": ("hämangiom", "hémangiome", "hemangioma"),
}


@cache
def _codes() -> dict[str, str]:
    """The code of each name in small letters."""
    published = (DERM7PT_CODES, HAM10000_CODES, ISIC2020_CODES, PAD_UFES_20_CODES)
    names = {name.lower(): code for codes in published for name, code in codes.items() if code in TAXONOMY}
    names |= {name: code for code, others in _NAMES.items() for name in others}
    names |= {label.name.lower(): code for code, label in TAXONOMY.items()}
    return names | {code.lower(): code for code in (*TAXONOMY, BENIGN.code, MALIGNANT.code)}


def known_code(label: str) -> str | None:
    """The code that a label means; None for one that is not known."""
    return _codes().get(" ".join(label.lower().split()))


class CsvTable(TableAdapter):
    """A table and the meaning of its columns; a column that is not named is not read.

    Attributes:
        table: the CSV file in the folder.
        image: the column with the picture's file name, with or without its suffix.
        label: the column with the diagnosis.
        codes: by column of the manifest what values of the table become, whatever their case:
            `{"label": {"Melanom": "MEL"}, "sex": {"w": "female"}, "age": {"85+": "85"}}`; empty for not
            known. Where it names any diagnosis, one without a known code is refused; others stay as they are.
        skin_tone: the column with the skin tone.
        scale: the scale of that column.
        lesion_id: the column with the lesion.
        patient_id: the column with the patient.
        site: the column with the place on the body.
        split: the column with the split.
        patterns: for one of the four options above, a regular expression whose one group is what counts of
            the column: with `patient_id: image` and `{patient_id: "^([0-9]+)_"}`, `10_left` is of patient 10.
        extra: columns to keep, from their names in the table to their names in the manifest.
        encoding: of the table, such as `cp1252`, `mac-roman` or `utf-16-le`; null takes what it shows.
        delimiter: between its cells: `comma`, `semicolon`, `tab`, `pipe` or the sign itself; null takes what
            the header shows.
        empty_cells: what cells say, in any case, where nothing is known, besides nothing.
    """

    name: Literal["csv"] = "csv"
    table: str
    image: str = "image"
    label: str | None = None
    codes: Mapping[str, Mapping[str, str]] = {}
    skin_tone: str | None = None
    scale: str | None = None
    lesion_id: str | None = None
    patient_id: str | None = None
    site: str | None = None
    split: str | None = None
    patterns: Mapping[Literal["lesion_id", "patient_id", "site", "split"], str] = {}
    extra: Mapping[str, str] = {}
    encoding: str | None = None
    delimiter: str | None = None
    empty_cells: tuple[str, ...] = EMPTY_CELLS

    @field_validator("encoding")
    @classmethod
    def _one_that_is_known(cls, encoding: str | None) -> str | None:
        try:
            return encoding and codecs.lookup(encoding).name
        except LookupError as error:
            raise ValueError(
                f"there is no encoding {encoding!r}; common ones: utf-8, cp1252, mac-roman, cp850, utf-16-le"
            ) from error

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, delimiter: str | None) -> str | None:
        sign = DELIMITERS.get(delimiter or "", delimiter)
        if sign is not None and (len(sign) != 1 or sign in '"\r\n'):
            raise ValueError(f"{delimiter!r} is no delimiter; name {', '.join(DELIMITERS)}, or one sign")
        return sign

    @model_validator(mode="after")
    def _fits(self) -> "CsvTable":
        if (self.skin_tone is None) != (self.scale is None):
            raise ValueError("`skin_tone` and `scale` go together: a tone means nothing without its scale")
        if self.scale is not None:
            read_scale(self.scale)
        for option, pattern in self.patterns.items():
            if getattr(self, option) is None:
                raise ValueError(f"`patterns` has {option}, but the option `{option}` names no column")
            if _compiled(pattern).groups != 1:
                raise ValueError(f"the pattern {pattern!r} of {option} needs one group, in parentheses")
        read = [*self._facts(), *self.extra.values()]
        for column in self.codes:
            if column not in read:
                known = nearest(column, read)
                raise ValueError(
                    f"`codes` has the column {column!r}, which the manifest does not get; {known}"
                )
        taken = sorted(set(self.extra.values()) & set(COLUMNS))
        if taken:
            raise ValueError(f"`extra` may not make the column {', '.join(taken)}; set the option instead")
        return self

    def manifest(self, folder: Path) -> Manifest:
        """One row per line of the table."""
        path, notes = folder / self.table, list[str]()
        required = [self.image, *self._facts().values(), *self.extra]
        lines = read_table(
            path,
            required,
            encoding=self.encoding,
            delimiter=self.delimiter,
            anybodys=True,
            notes=notes,
        )
        refuse_unnamed(path, lines, self.image)
        if spoilt := self._spoilt(lines):
            raise AdapterError(f"{path} has {len(spoilt)} problems:\n{listing(spoilt)}")
        images = images_of([line[self.image] for line in lines], folder, notes=notes)
        unread, emptied, dropped = UnreadCells(), self._emptied(lines), Counter[tuple[str, str]]()
        rows = [self._row(line, image, unread, dropped) for line, image in zip(lines, images, strict=True)]
        for counts, option in ((emptied, "empty_cells"), (+dropped, "codes")):
            for (column, value), count in counts.items():
                is_named = option == "empty_cells" or self._coded(column, value) != value
                by = f" (`{option}`)" if is_named else ""
                cells = "one cell says" if count == 1 else f"{count} cells say"
                notes.append(
                    Note(
                        f"{column}: {cells} {value!r}, which is taken for not known{by}",
                        f"{count} cells of a column are taken for not known{by}",
                    )
                )
        refused = bool(unread)
        refused |= self._note_unknown(rows, unread)
        if refused:
            mapping = f", or map them: {proposal(unread.codes, self.codes)}" if unread.codes else ""
            raise AdapterError(
                f"{path} has {len(unread.lines)} values that cannot be read:\n{listing(unread.lines)}\n"
                f"mend the table{mapping}"
            )
        columns = [*COLUMNS, *self.extra.values()]
        numbered = [
            (line.number, {column: row.value(column) for column in columns})
            for line, row in zip(lines, rows, strict=True)
        ]
        rows = [rows[place] for place in counted_once(path, numbered, "image", self.repeats, notes)]
        unlabelled = sum(not row.label for row in rows)
        if self.label is not None and unlabelled:
            text = f"{unlabelled} of {len(rows)} cells are empty: no label"
            notes.append(Note(f"{self.label}: {text}", f"the column of labels: {text}"))
        if unread:
            text = f"no known fact (age, sex, site, kind) or diagnosis: {len(unread.lines)} values"
            mapping = proposal(unread.codes, self.codes)
            shown = f"{listing(unread.lines)}\nlook at this proposal, and map them: {mapping}"
            notes.append(Note(f"{path.name}: {text}:\n{shown}", f"a table: {text}"))
        return Manifest.of(rows, folder, notes)

    def _note_unknown(self, rows: Sequence[Row], unread: UnreadCells) -> bool:
        """Add facts and diagnoses that are not known; true where `codes` has diagnoses and lacks one."""
        known, refused = self.codes.get("label", {}), False
        unread_facts(rows, unread)
        for row in rows:
            if row.label and row.label not in known.values() and describe(row.label).malignancy == "unknown":
                refused |= bool(known)
                missing = "is not in `codes`" if known else "is none whose meaning is known"
                reason = f"diagnosis {row.label!r} {missing}"
                unread.add("label", row.label, reason, row.image, means=known_code(row.label))
        return refused

    def _spoilt(self, lines: Sequence[Line]) -> list[str]:
        """Ids that a spreadsheet rounded."""
        ids = [column for column in (self.image, self.lesion_id, self.patient_id) if column is not None]
        return [
            f"line {line.number}: {column} {line[column]!r} is a number that a spreadsheet rounded, so that "
            f"ids become one; {AS_TEXT}"
            for line in lines
            for column in dict.fromkeys(ids)
            if rounded(line[column])
        ]

    def _emptied(self, lines: Sequence[Line]) -> Counter[tuple[str, str]]:
        """Empty the cells that say nothing, but for values that `codes` names; how many there are of each."""
        nothing = {word.casefold() for word in self.empty_cells}
        named: dict[str, set[str]] = {}
        for name, column in [
            *self._facts().items(),
            *((name, column) for column, name in self.extra.items()),
        ]:
            named.setdefault(column, set()).update(self.codes.get(name, {}))
        named.pop(self.image, None)
        found: Counter[tuple[str, str]] = Counter()
        for line in lines:
            for column, cell in line.items():
                if cell and column in named and cell.casefold() in nothing and cell not in named[column]:
                    found[column, cell] += 1
                    line[column] = ""
        return found

    def _facts(self) -> dict[str, str]:
        """The columns that are read, by the option that names them."""
        options = ("label", "skin_tone", "lesion_id", "patient_id", "site", "split")
        return {option: column for option in options if (column := getattr(self, option)) is not None}

    def _row(
        self,
        line: Mapping[str, str],
        image: str,
        unread: UnreadCells,
        dropped: Counter[tuple[str, str]],
    ) -> Row:
        """The row of a line; values that cannot be read go to `unread`, those made empty to `dropped`."""

        def coded(column: str, text: str) -> str:
            code = self._coded(column, text)
            if column == SEX.name and code:
                with suppress(ValueError):
                    code = SEX.write(SEX.read(code)) or ""
            dropped[column, text] += 1 if text and not code else 0
            return code

        def cell(option: str) -> str:
            column = getattr(self, option)
            text = line[column] if column else ""
            pattern = self.patterns.get(option)  # type: ignore[call-overload]
            if not text or pattern is None:
                return coded(option, text)
            found = re.search(pattern, text)
            if found is None:
                reason = f"{option} {text!r} does not match the pattern {pattern!r}"
                unread.add(option, text, reason, image, mapped=False)
                return ""
            return coded(option, found[1] or "")

        label, tone = cell("label"), cell("skin_tone")
        if tone and self.scale:
            try:
                tone = read_tone(tone, self.scale)
            except ValueError as error:
                meant = propose("skin_tone", tone)
                try:
                    read_tone(meant, self.scale)
                except ValueError:
                    meant = ""
                unread.add("skin_tone", tone, str(error), image, means=meant)
        scale = read_scale(self.scale) if tone and self.scale else ""
        cells = {option: cell(option) for option in ("lesion_id", "patient_id", "site", "split")}
        extra = {name: coded(name, line[column]) for column, name in self.extra.items()}
        return Row(image, label, tone, scale, **cells, extra=extra)

    def _coded(self, column: str, text: str) -> str:
        """What `codes` makes of a value of a column of the manifest; the value itself where it names none."""
        codes = self.codes.get(column, {})
        if text in codes:
            return codes[text]
        return next((code for value, code in codes.items() if value.casefold() == text.casefold()), text)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from error
