"""ISIC 2020: 33,126 dermoscopic pictures of 2,056 patients (Rotemberg et al. 2021, CC BY-NC 4.0).

The folder holds `ISIC_2020_Training_GroundTruth*.csv` and the pictures, unpacked or in zip files. Version 2
of the table names lesions; without it each picture is taken for a lesion of its own. Where the folder also
holds `ISIC_2020_Training_Duplicates.csv`, its 425 pairs of one picture under two names are kept together.

The data set has no skin tones. Most of its benign pictures were published without a diagnosis: theirs is
`unknown`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import code_of, images_of, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import DUPLICATE_GROUP, IMAGE_KIND, Manifest, Row, name_groups

MALIGNANCIES = {"benign": "benign", "malignant": "malignant"}
# As ISIC 2019 counts them: BKL is seborrhoeic and lichenoid keratosis and solar lentigo. A diagnosis without
# a code keeps its published name.
DIAGNOSES = {
    "melanoma": "MEL",
    "nevus": "NV",
    "seborrheic keratosis": "BKL",
    "lichenoid keratosis": "BKL",
    "solar lentigo": "BKL",
    "lentigo NOS": "lentigo NOS",
    "cafe-au-lait macule": "cafe-au-lait macule",
    "atypical melanocytic proliferation": "atypical melanocytic proliferation",
    "unknown": "",
}
DUPLICATES = "ISIC_2020_Training_Duplicates.csv"


class Isic2020(TableAdapter):
    """ISIC 2020.

    Attributes:
        labels: the column that labels are taken from. `benign_malignant` is known of every picture;
            of `diagnosis`, `unknown` becomes no label.
    """

    name: Literal["isic2020"] = "isic2020"
    labels: Literal["benign_malignant", "diagnosis"] = "benign_malignant"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the table."""
        notes: list[str] = []
        site = "anatom_site_general_challenge"
        required = ("image_name", "patient_id", "sex", "age_approx", site, "diagnosis", "benign_malignant")
        lines = read_table(
            _table(folder), (*required, "target"), key="image_name", repeats=self.repeats, notes=notes
        )
        images = images_of([line["image_name"] for line in lines], folder, notes=notes)
        groups = _duplicates(folder / DUPLICATES)
        codes = DIAGNOSES if self.labels == "diagnosis" else MALIGNANCIES
        rows = []
        for line, image in zip(lines, images, strict=True):
            name = line["image_name"]
            label = code_of(name, line[self.labels], codes)
            _refuse_contradiction(line)
            kept = {"diagnosis": line["diagnosis"], "benign_malignant": line["benign_malignant"]}
            extra = {"age": line["age_approx"], "sex": line["sex"], **kept, IMAGE_KIND: "dermoscopic"}
            if groups:
                extra[DUPLICATE_GROUP] = groups.get(name, "")
            rows.append(
                Row(
                    image=image,
                    label=label,
                    lesion_id=line.get("lesion_id", ""),
                    patient_id=line["patient_id"],
                    site=line[site],
                    extra=extra,
                )
            )
        return Manifest.of(rows, folder, notes)


def _table(folder: Path) -> Path:
    """The most complete table: version 2, with lesions, where both are there."""
    tables = sorted(folder.glob("ISIC_2020_Training_GroundTruth*.csv"), key=lambda path: len(path.name))
    if not tables:
        raise AdapterError(
            f"{folder} holds no ISIC_2020_Training_GroundTruth*.csv; put the published table there"
        )
    return tables[-1]


def _refuse_contradiction(line: Mapping[str, str]) -> None:
    """Refuse a picture whose two columns of malignancy do not agree."""
    says, target = line["benign_malignant"], line["target"]
    if (says, target) not in {("benign", "0"), ("malignant", "1"), ("", "")}:
        raise AdapterError(
            f"{line['image_name']} has benign_malignant {says!r} and target {target!r}; "
            f"published are benign with 0 and malignant with 1"
        )


def _duplicates(path: Path) -> dict[str, str]:
    """The group of each picture that the list of duplicates names, called after the group's first."""
    if not path.is_file():
        return {}
    columns = ("image_name_1", "image_name_2")
    pairs = [[line[column] for column in columns] for line in read_table(path, columns)]
    return name_groups(pairs)
