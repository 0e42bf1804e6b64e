"""MILK10k: 4,195 lesions, each with a clinical close-up and a dermoscopic picture (2025, CC BY-NC).

The folder holds `MILK10k_Training_GroundTruth.csv`, `MILK10k_Training_Metadata.csv` and the pictures,
unpacked or in zip files. Tones are on the data set's own scale `milk10k`, 0 (very dark) to 5 (very light).
"""

from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import images_of, one_hot, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import DUPLICATE_GROUP, IMAGE_KIND, Manifest, Row
from registry.bundle.cases import read_kind

# Lesions under two numbers whose pictures are nearly the same: they must not part in a split.
NEAR_DUPLICATES = (
    ("IL_1562251", "IL_2734125"),
    ("IL_9590648", "IL_2812139"),
    ("IL_5835237", "IL_1808002"),
    ("IL_6365837", "IL_2779245"),
    ("IL_9247349", "IL_6755192"),
)


class Milk10k(TableAdapter):
    """MILK10k; no options. Filter by the column `image_type` to keep one of the two kinds of picture."""

    name: Literal["milk10k"] = "milk10k"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table, labelled by its lesion's ground truth."""
        notes: list[str] = []
        labels = one_hot(folder / "MILK10k_Training_GroundTruth.csv", "lesion_id")
        required = ("lesion_id", "image_type", "isic_id", "skin_tone_class", "site")
        group = {lesion: pair[0] for pair in NEAR_DUPLICATES for lesion in pair}
        lines = read_table(
            folder / "MILK10k_Training_Metadata.csv",
            required,
            key="isic_id",
            repeats=self.repeats,
            notes=notes,
        )
        images = images_of([line["isic_id"] for line in lines], folder, notes=notes)
        rows = []
        for line, image in zip(lines, images, strict=True):
            lesion, tone = line["lesion_id"], line["skin_tone_class"].removesuffix(".0")
            if lesion not in labels:
                raise AdapterError(f"lesion {lesion} is in the metadata but not in the ground truth")
            extra = {
                "image_type": line["image_type"],
                IMAGE_KIND: read_kind(line["image_type"]) or "",
                "age": line.get("age_approx", ""),
                "sex": line.get("sex", ""),
                DUPLICATE_GROUP: group.get(lesion, ""),
            }
            rows.append(
                Row(
                    image=image,
                    label=labels[lesion],
                    skin_tone=tone,
                    skin_tone_scale="milk10k" if tone else "",
                    lesion_id=lesion,
                    site=line["site"],
                    extra=extra,
                )
            )
        return Manifest.of(rows, folder, notes)
