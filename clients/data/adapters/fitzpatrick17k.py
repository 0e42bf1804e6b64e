"""Fitzpatrick17k: 16,577 clinical pictures with Fitzpatrick types (Groh et al. 2021, CC BY-NC-SA 3.0).

The folder holds `fitzpatrick17k.csv` and the pictures, each named by its `md5hash`, unpacked or in zip
files; many addresses of the table no longer answer. The published names of diagnoses are the codes. Types
were annotated from the picture, by a crowd (`fitzpatrick_scale`) and by one company
(`fitzpatrick_centaur`); -1 is not known.

The data set tells no lesions, patients and sites, and is known to hold duplicates that it does not name.
The judgement `qc` of dermatologists exists for 504 pictures alone; all pictures are kept unless an option
leaves out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.diagnoses import code_of, tone_of
from clients.data.adapters.fitzpatrick17k_names import DIAGNOSES, NINE, THREE
from clients.data.adapters.published import images_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import Manifest, Row
from registry.bundle.text import nearest

TABLE = "fitzpatrick17k.csv"
QC = ("1 Diagnostic", "2 Characteristic", "3 Wrongly labelled", "4 Other", "5 Potentially")
NAMES = {"label": DIAGNOSES, "nine_partition_label": NINE, "three_partition_label": THREE}


class Fitzpatrick17k(TableAdapter):
    """Fitzpatrick17k.

    Attributes:
        labels: the column that labels are taken from: 114 diagnoses, or nine or three groups of them.
        tones: the column that skin tones are taken from; an older table calls its only one `fitzpatrick`.
        leave_out_qc: leave out pictures with these judgements, e.g. `["3 Wrongly labelled"]`.
    """

    name: Literal["fitzpatrick17k"] = "fitzpatrick17k"
    labels: Literal["label", "nine_partition_label", "three_partition_label"] = "label"
    tones: Literal["fitzpatrick_scale", "fitzpatrick_centaur", "fitzpatrick"] = "fitzpatrick_scale"
    leave_out_qc: tuple[str, ...] = ()

    @field_validator("leave_out_qc")
    @classmethod
    def _known_judgements(cls, judgements: Sequence[str]) -> tuple[str, ...]:
        for judgement in judgements:
            if judgement not in QC:
                raise ValueError(f"there is no judgement {judgement!r}; {nearest(judgement, QC)}")
        return tuple(judgements)

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the table that is not left out."""
        notes: list[str] = []
        required = ("md5hash", self.tones, "label", "nine_partition_label", "three_partition_label", "qc")
        lines = read_table(folder / TABLE, required, key="md5hash", repeats=self.repeats, notes=notes)
        lines = [line for line in lines if line["qc"] not in self.leave_out_qc]
        if not lines:
            raise AdapterError(f"`leave_out_qc` leaves out every picture of {folder / TABLE}")
        images = images_of([line["md5hash"] for line in lines], folder, notes=notes)
        codes = {name: name for name in NAMES[self.labels]}
        rows = []
        for line, image in zip(lines, images, strict=True):
            name = line["md5hash"]
            told = line[self.tones].removesuffix(".0")
            tone = tone_of(name, "" if told == "-1" else told, "fitzpatrick")
            rows.append(
                Row(
                    image=image,
                    label=code_of(name, line[self.labels], codes),
                    skin_tone=tone,
                    skin_tone_scale="fitzpatrick" if tone else "",
                    extra={
                        "diagnosis": line["label"],
                        "nine_partition_label": line["nine_partition_label"],
                        "three_partition_label": line["three_partition_label"],
                        "qc": line["qc"],
                    },
                )
            )
        return Manifest.of(rows, folder, notes)
