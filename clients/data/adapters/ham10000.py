"""HAM10000: 10,015 dermoscopic pictures of seven diagnoses (Tschandl et al. 2018, CC BY-NC 4.0).

The folder holds `HAM10000_metadata*.csv` and the pictures, unpacked or in zip files. The version of the table
with the column `dataset` tells the four sources apart; it becomes the column `clinic`. The data set declares
no skin tones and no patients.
"""

from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import code_of, images_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import IMAGE_KIND, Manifest, Row

CODES = {
    "akiec": "AKIEC",
    "bcc": "BCC",
    "bkl": "BKL",
    "df": "DF",
    "mel": "MEL",
    "nv": "NV",
    "vasc": "VASC",
}


class Ham10000(TableAdapter):
    """HAM10000; no options."""

    name: Literal["ham10000"] = "ham10000"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""
        notes: list[str] = []
        required = ("lesion_id", "image_id", "dx", "localization")
        lines = read_table(_table(folder), required, key="image_id", repeats=self.repeats, notes=notes)
        images = images_of([line["image_id"] for line in lines], folder, notes=notes)
        rows = []
        for line, image in zip(lines, images, strict=True):
            extra = {column: line.get(column, "") for column in ("age", "sex")} | {IMAGE_KIND: "dermoscopic"}
            if "dataset" in line:
                extra["clinic"] = line["dataset"]
            rows.append(
                Row(
                    image=image,
                    label=code_of(line["image_id"], line["dx"], CODES),
                    lesion_id=line["lesion_id"],
                    site="" if line["localization"] == "unknown" else line["localization"],
                    extra=extra,
                )
            )
        return Manifest.of(rows, folder, notes)


def _table(folder: Path) -> Path:
    """The most complete metadata table: the one with the sources where both are there."""
    tables = sorted(folder.glob("HAM10000_metadata*"), key=lambda path: (len(path.name), path.name))
    if not tables:
        raise AdapterError(f"{folder} holds no HAM10000_metadata*.csv; put the published table there")
    return tables[-1]
