"""Any table with one line per picture: the options say which column holds what.

The folder holds the table and the pictures, unpacked or in zip files. docs/data-sets.md has
the options for Diverse Dermatology Images (DDI), the Kaggle diabetic retinopathy pictures and COVID-FL.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import images_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import COLUMNS, Manifest, Row
from clients.data.wording import listing
from registry.bundle.nearest import nearest
from registry.bundle.skin_tone.scales import read_scale, read_tone


class CsvTable(Adapter):
    """A table and the meaning of its columns; a column that is not named is not read.

    Attributes:
        table: the CSV file in the folder.
        image: the column with the picture's file name, with or without its suffix.
        label: the column with the diagnosis.
        codes: from the table's diagnoses to codes; without it they are taken as they are.
        skin_tone: the column with the skin tone.
        scale: the scale of that column.
        unknown_tones: what that column says where the tone is not known (`-1`), besides nothing.
        lesion_id: the column with the lesion.
        patient_id: the column with the patient.
        site: the column with the place on the body.
        split: the column with the split.
        patterns: for one of the four options above, a regular expression whose one group is what counts of
            the column: with `patient_id: image` and `{patient_id: "^([0-9]+)_"}`, `10_left` is of patient 10.
        extra: columns to keep, from their names in the table to their names in the manifest.
    """

    name: Literal["csv"] = "csv"
    table: str
    image: str = "image"
    label: str | None = None
    codes: Mapping[str, str] | None = None
    skin_tone: str | None = None
    scale: str | None = None
    unknown_tones: tuple[str, ...] = ()
    lesion_id: str | None = None
    patient_id: str | None = None
    site: str | None = None
    split: str | None = None
    patterns: Mapping[Literal["lesion_id", "patient_id", "site", "split"], str] = {}
    extra: Mapping[str, str] = {}

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
        taken = sorted(set(self.extra.values()) & set(COLUMNS))
        if taken:
            raise ValueError(f"`extra` may not make the column {', '.join(taken)}; set the option instead")
        return self

    def manifest(self, folder: Path) -> Manifest:
        """One row per line of the table."""
        named = (self.label, self.skin_tone, self.lesion_id, self.patient_id, self.site, self.split)
        required = [self.image, *(column for column in named if column), *self.extra]
        lines = read_table(folder / self.table, required, key=self.image)
        images = images_of([line[self.image] for line in lines], folder)
        rows: list[Row] = []
        problems: list[str] = []
        for number, (line, image) in enumerate(zip(lines, images, strict=True), start=2):
            try:
                rows.append(self._row(line, image))
            except ValueError as error:
                problems.append(f"line {number}: {error}")
        if problems:
            raise AdapterError(f"{folder / self.table} has {len(problems)} problems:\n{listing(problems)}")
        return Manifest.of(rows, folder)

    def _row(self, line: Mapping[str, str], image: str) -> Row:
        def cell(column: str | None) -> str:
            return line[column] if column else ""

        def part(option: Literal["lesion_id", "patient_id", "site", "split"]) -> str:
            text, pattern = cell(getattr(self, option)), self.patterns.get(option)
            if not text or pattern is None:
                return text
            found = re.search(pattern, text)
            if found is None:
                raise ValueError(f"{option} {text!r} does not match the pattern {pattern!r}")
            return found[1] or ""

        label, tone = cell(self.label), cell(self.skin_tone)
        if label and self.codes is not None:
            if label not in self.codes:
                raise ValueError(f"diagnosis {label!r} is not in `codes`; {nearest(label, list(self.codes))}")
            label = self.codes[label]
        if tone in self.unknown_tones or self.scale is None:
            tone = ""
        return Row(
            image=image,
            label=label,
            skin_tone=read_tone(tone, self.scale) if tone and self.scale else "",
            skin_tone_scale=read_scale(self.scale) if tone and self.scale else "",
            lesion_id=part("lesion_id"),
            patient_id=part("patient_id"),
            site=part("site"),
            split=part("split"),
            extra={name: line[column] for column, name in self.extra.items()},
        )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from error
