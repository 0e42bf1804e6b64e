"""Any table with one line a picture: the options say which column holds what.

The folder holds the table and the pictures, unpacked or in zip files. For Diverse Dermatology Images (DDI),
for example: `image: DDI_file`, `label: disease`, `skin_tone: skin_tone`, `scale: ddi`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import find_pictures, image_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifest import COLUMNS, Manifest, Row
from clients.data.wording import listing
from registry.bundle.tones import read_scale, read_tone


class CsvTable(Adapter):
    """A table and what its columns mean; a column that is not named is not known.

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
    extra: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _fits(self) -> "CsvTable":
        if (self.skin_tone is None) != (self.scale is None):
            raise ValueError("`skin_tone` and `scale` go together: a tone means nothing without its scale")
        if self.scale is not None:
            read_scale(self.scale)
        taken = sorted(set(self.extra.values()) & set(COLUMNS))
        if taken:
            raise ValueError(f"`extra` may not make the column {', '.join(taken)}; set the option instead")
        return self

    def manifest(self, folder: Path) -> Manifest:
        """One row per line of the table."""
        places = find_pictures(folder)
        named = (self.label, self.skin_tone, self.lesion_id, self.patient_id, self.site, self.split)
        required = [self.image, *(column for column in named if column), *self.extra]
        rows: list[Row] = []
        problems: list[str] = []
        for number, line in enumerate(read_table(folder / self.table, required), start=2):
            try:
                rows.append(self._row(line, places, folder))
            except ValueError as error:
                problems.append(f"line {number}: {error}")
        if problems:
            raise AdapterError(f"{folder / self.table} has {len(problems)} problems:\n{listing(problems)}")
        return Manifest.of(rows, folder)

    def _row(self, line: Mapping[str, str], places: Mapping[str, str], folder: Path) -> Row:
        def cell(column: str | None) -> str:
            return line[column] if column else ""

        label, tone = cell(self.label), cell(self.skin_tone)
        if label and self.codes is not None:
            if label not in self.codes:
                raise ValueError(f"diagnosis {label!r} is not in `codes`; known: {', '.join(self.codes)}")
            label = self.codes[label]
        if tone in self.unknown_tones or self.scale is None:
            tone = ""
        return Row(
            image=image_of(cell(self.image), places, folder),
            label=label,
            skin_tone=read_tone(tone, self.scale) if tone and self.scale else "",
            skin_tone_scale=read_scale(self.scale) if tone and self.scale else "",
            lesion_id=cell(self.lesion_id),
            patient_id=cell(self.patient_id),
            site=cell(self.site),
            split=cell(self.split),
            extra={name: line[column] for column, name in self.extra.items()},
        )
