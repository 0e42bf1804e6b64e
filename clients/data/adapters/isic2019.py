"""ISIC 2019: 25,331 dermoscopic pictures of eight diagnoses (CC BY-NC 4.0).

The training set of the ISIC 2019 challenge: HAM10000 (Tschandl et al. 2018), BCN20000 (Combalia et al.
2019) and MSK (Codella et al. 2018). The folder holds `ISIC_2019_Training_GroundTruth.csv`,
`ISIC_2019_Training_Metadata.csv` and the pictures, unpacked or in zip files. Where it also holds
`train_test_split.csv` of FLamby (du Terrail et al. 2022), its six hospitals and its two folds become the
columns `flamby_center` and `flamby_fold`. The folds are no `split`: they divide 696 lesions.

The data set tells no skin tones and no patients, and for 2,084 pictures no lesion. Lesions say where a
picture comes from (`HAM_0000550`): the column `source`. All of HAM10000 is in it, under the same names.

What pictures of a lesion tell differently, age, sex or site, is not known of it: 19 lesions, most of them
five years apart.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import code_of, images_of, one_hot, read_table
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import IMAGE_KIND, Manifest, Row

CODES = {code: code for code in ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK")}
FACTS = ("age_approx", "sex", "anatom_site_general")
FLAMBY = "train_test_split.csv"


class Isic2019(TableAdapter):
    """ISIC 2019.

    Attributes:
        without_ham10000: leave out the 10,015 pictures that HAM10000 gives out too, for a job that has both.
    """

    name: Literal["isic2019"] = "isic2019"
    without_ham10000: bool = False

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""
        notes: list[str] = []
        labels = one_hot(folder / "ISIC_2019_Training_GroundTruth.csv", "image")
        required = ("image", "age_approx", "anatom_site_general", "lesion_id", "sex")
        lines = read_table(
            folder / "ISIC_2019_Training_Metadata.csv",
            required,
            key="image",
            repeats=self.repeats,
            notes=notes,
        )
        if self.without_ham10000:
            lines = [line for line in lines if _source(line) != "HAM"]
        images = images_of([line["image"] for line in lines], folder, ending="_downsampled", notes=notes)
        told = {fact: _contradicted(lines, fact) for fact in FACTS}
        flamby = _flamby(folder / FLAMBY)
        rows = []
        for line, image in zip(lines, images, strict=True):
            name = line["image"]
            if name not in labels:
                raise AdapterError(f"{name} is in the metadata but not in the ground truth")
            age, sex, site = (told[fact].get(line["lesion_id"], line[fact]) for fact in FACTS)
            extra = {"age": age, "sex": sex, "source": _source(line)}
            extra[IMAGE_KIND] = "dermoscopic"
            if flamby:
                center, fold = flamby.get(name, ("", ""))
                extra |= {"flamby_center": center, "flamby_fold": fold}
            rows.append(
                Row(
                    image=image,
                    label=code_of(name, labels[name], CODES),
                    lesion_id=line["lesion_id"],
                    site=site,
                    extra=extra,
                )
            )
        return Manifest.of(rows, folder, notes)


def _contradicted(lines: Sequence[Mapping[str, str]], fact: str) -> dict[str, str]:
    """Nothing, for each lesion whose pictures tell a fact differently."""
    told: dict[str, set[str]] = {}
    for line in lines:
        if line["lesion_id"]:
            told.setdefault(line["lesion_id"], set()).add(line[fact])
    return {lesion: "" for lesion, values in told.items() if len(values - {""}) > 1}


def _source(line: Mapping[str, str]) -> str:
    """BCN, HAM or MSK4, and nothing where no lesion is named."""
    return line["lesion_id"].partition("_")[0]


def _flamby(path: Path) -> dict[str, tuple[str, str]]:
    """FLamby's hospital and fold of each picture that it uses, if its table is there."""
    if not path.is_file():
        return {}
    lines = read_table(path, ("image", "center", "fold"), key="image")
    return {line["image"]: (line["center"], line["fold"]) for line in lines}
