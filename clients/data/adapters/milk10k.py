"""MILK10k: 4,195 lesions, each with a clinical close-up and a dermoscopic picture (2025, CC BY-NC).

The folder holds `MILK10k_Training_GroundTruth.csv`, `MILK10k_Training_Metadata.csv` and the pictures,
unpacked or in zip files. Tones are on the data set's own scale `milk10k`, 0 (very dark) to 5 (very light).
"""

from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import find_pictures, image_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifest import DUPLICATE_GROUP, Manifest, Row

# Lesions under two numbers whose pictures are nearly the same: they must not part in a split.
NEAR_DUPLICATES = (
    ("IL_1562251", "IL_2734125"),
    ("IL_9590648", "IL_2812139"),
    ("IL_5835237", "IL_1808002"),
    ("IL_6365837", "IL_2779245"),
    ("IL_9247349", "IL_6755192"),
)


class Milk10k(Adapter):
    """MILK10k; no options. Filter by the column `image_type` to keep one of the two kinds of picture."""

    name: Literal["milk10k"] = "milk10k"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table, labelled by its lesion's ground truth."""
        places = find_pictures(folder)
        labels = _labels(folder / "MILK10k_Training_GroundTruth.csv")
        required = ("lesion_id", "image_type", "isic_id", "skin_tone_class", "site")
        group = {lesion: pair[0] for pair in NEAR_DUPLICATES for lesion in pair}
        rows = []
        for line in read_table(folder / "MILK10k_Training_Metadata.csv", required):
            lesion, tone = line["lesion_id"], line["skin_tone_class"].removesuffix(".0")
            if lesion not in labels:
                raise AdapterError(f"lesion {lesion} is in the metadata but not in the ground truth")
            extra = {
                "image_type": line["image_type"],
                "age": line.get("age_approx", ""),
                "sex": line.get("sex", ""),
                DUPLICATE_GROUP: group.get(lesion, ""),
            }
            rows.append(
                Row(
                    image=image_of(line["isic_id"], places, folder),
                    label=labels[lesion],
                    skin_tone=tone,
                    skin_tone_scale="milk10k" if tone else "",
                    lesion_id=lesion,
                    site=line["site"],
                    extra=extra,
                )
            )
        return Manifest.of(rows, folder)


def _labels(path: Path) -> dict[str, str]:
    """The code of each lesion: the one column of its line that is 1."""
    labels = {}
    for line in read_table(path, ("lesion_id",)):
        lesion = line.pop("lesion_id")
        codes = [code for code, value in line.items() if value and float(value) == 1]
        if len(codes) != 1:
            raise AdapterError(f"{path}: lesion {lesion} has {len(codes)} diagnoses instead of one")
        labels[lesion] = codes[0]
    return labels
