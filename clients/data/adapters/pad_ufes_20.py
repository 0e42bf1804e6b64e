"""PAD-UFES-20: 2,298 smartphone pictures of 1,373 patients, six diagnoses (Pacheco et al. 2020, CC BY 4.0).

The folder holds `metadata.csv` and the pictures, unpacked or in zip files. Skin tones are Fitzpatrick
types, in the column `fitspatrick` (as it is spelt); 804 pictures have none.

A `lesion_id` of the table names a lesion only together with its patient: 250 of its values are under
several patients. So a lesion is named by both here, as in the pictures' names: `PAT_46_881`.
"""

from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import code_of, images_of, read_table, tone_of
from clients.data.manifests.manifest import IMAGE_KIND, Manifest, Row

CODES = {"ACK": "AK", "BCC": "BCC", "MEL": "MEL", "NEV": "NV", "SCC": "SCC", "SEK": "BKL"}


class PadUfes20(TableAdapter):
    """PAD-UFES-20; no options. SCC counts Bowen's disease too, BKL is seborrhoeic keratosis alone."""

    name: Literal["pad-ufes-20"] = "pad-ufes-20"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""
        notes: list[str] = []
        required = ("img_id", "patient_id", "lesion_id", "diagnostic", "fitspatrick")
        lines = read_table(folder / "metadata.csv", required, key="img_id", repeats=self.repeats, notes=notes)
        images = images_of([line["img_id"] for line in lines], folder, notes=notes)
        rows = []
        for line, image in zip(lines, images, strict=True):
            name, patient, lesion = line["img_id"], line["patient_id"], line["lesion_id"]
            tone = tone_of(name, line["fitspatrick"], "fitzpatrick")
            rows.append(
                Row(
                    image=image,
                    label=code_of(name, line["diagnostic"], CODES),
                    skin_tone=tone,
                    skin_tone_scale="fitzpatrick" if tone else "",
                    lesion_id=f"{patient}_{lesion}" if lesion else "",
                    patient_id=patient,
                    site=line.get("region", "").lower(),
                    extra={
                        "age": line.get("age", ""),
                        "sex": line.get("gender", "").lower(),
                        "biopsied": line.get("biopsed", "").lower(),
                        IMAGE_KIND: "close-up",
                    },
                )
            )
        return Manifest.of(rows, folder, notes)
