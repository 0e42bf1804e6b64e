"""Published tables with a line for each picture of a lesion: HAM10000, ISIC, MILK10k and PAD-UFES-20.

Each folder holds the tables that a class names and the pictures, unpacked or in zip files.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from clients.data.adapters.published import Line, PublishedTable, code_of, one_hot, read_table
from clients.data.errors import AdapterError
from clients.data.manifest import DUPLICATE_GROUP, IMAGE_KIND, Manifest, name_groups
from registry.bundle.cases import read_kind

HAM10000_CODES = {code.lower(): code for code in ("AKIEC", "BCC", "BKL", "DF", "MEL", "NV", "VASC")}
ISIC2019_CODES = {code: code for code in ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK")}
# As ISIC 2019 counts them: BKL is seborrhoeic and lichenoid keratosis and solar lentigo. A diagnosis without
# a code keeps its published name.
ISIC2020_CODES = {
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
PAD_UFES_20_CODES = {"ACK": "AK", "BCC": "BCC", "MEL": "MEL", "NEV": "NV", "SCC": "SCC", "SEK": "BKL"}


class Ham10000(PublishedTable):
    """HAM10000; no options.

    10,015 dermoscopic pictures of seven diagnoses (Tschandl et al. 2018, CC BY-NC 4.0). The version of the
    table with the column `dataset` tells the four sources apart; it becomes the column `clinic`. The data set
    declares no skin tones and no patients.
    """

    name: Literal["ham10000"] = "ham10000"
    table: ClassVar = "HAM10000_metadata*"
    key: ClassVar = "image_id"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""

        def cells(line: Line) -> dict[str, str]:
            return {
                "label": code_of(line["image_id"], line["dx"], HAM10000_CODES),
                "lesion_id": line["lesion_id"],
                "site": "" if line["localization"] == "unknown" else line["localization"],
                "age": line.get("age", ""),
                "sex": line.get("sex", ""),
                IMAGE_KIND: "dermoscopic",
                **({"clinic": line["dataset"]} if "dataset" in line else {}),
            }

        notes: list[str] = []
        lines = self.lines(folder, "lesion_id", "dx", "localization", notes=notes)
        return self.made(folder, lines, cells, notes)


class Isic2019(PublishedTable):
    """ISIC 2019.

    25,331 dermoscopic pictures of eight diagnoses (CC BY-NC 4.0), the training set of the ISIC 2019
    challenge: HAM10000 (Tschandl et al. 2018), BCN20000 (Combalia et al. 2019) and MSK (Codella et al. 2018).
    Where the folder also holds `train_test_split.csv` of FLamby (du Terrail et al. 2022), its six hospitals
    and its two folds become the columns `flamby_center` and `flamby_fold`. The folds are no `split`: they
    divide 696 lesions.

    The data set tells no skin tones and no patients, and for 2,084 pictures no lesion. Lesions say where a
    picture comes from (`HAM_0000550`): the column `source`. All of HAM10000 is in it, under the same names.
    What pictures of a lesion tell differently, age, sex or site, is not known of it: 19 lesions, most of them
    five years apart.

    Attributes:
        without_ham10000: leave out the 10,015 pictures that HAM10000 gives out too, for a job that has both.
    """

    name: Literal["isic2019"] = "isic2019"
    without_ham10000: bool = False
    table: ClassVar = "ISIC_2019_Training_Metadata.csv"
    key: ClassVar = "image"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""
        notes: list[str] = []
        labels = one_hot(folder / "ISIC_2019_Training_GroundTruth.csv", "image", notes)
        facts = {"age": "age_approx", "sex": "sex", "site": "anatom_site_general"}
        lines = self.lines(folder, *facts.values(), "lesion_id", notes=notes)
        if self.without_ham10000:
            lines = [line for line in lines if _source(line) != "HAM"]
        unclear = {column: _contradicted(lines, column) for column in facts.values()}
        flamby = {}
        if (folder / "train_test_split.csv").is_file():
            columns = ("image", "center", "fold")
            table = read_table(folder / "train_test_split.csv", columns, key="image", notes=notes)
            flamby = {line["image"]: (line["center"], line["fold"]) for line in table}

        def cells(line: Line) -> dict[str, str]:
            name, lesion = line["image"], line["lesion_id"]
            if name not in labels:
                raise AdapterError(f"{name} is in the metadata but not in the ground truth")
            told = {fact: "" if lesion in unclear[at] else line[at] for fact, at in facts.items()}
            made = {"label": code_of(name, labels[name], ISIC2019_CODES), "lesion_id": lesion, **told}
            made |= {"source": _source(line), IMAGE_KIND: "dermoscopic"}
            if flamby:
                made["flamby_center"], made["flamby_fold"] = flamby.get(name, ("", ""))
            return made

        return self.made(folder, lines, cells, notes, ending="_downsampled")


def _contradicted(lines: Sequence[Line], fact: str) -> set[str]:
    """The lesions whose pictures tell a fact differently."""
    told: dict[str, set[str]] = {}
    for line in lines:
        told.setdefault(line["lesion_id"], set()).add(line[fact])
    return {lesion for lesion, values in told.items() if lesion and len(values - {""}) > 1}


def _source(line: Mapping[str, str]) -> str:
    """BCN, HAM or MSK4, and nothing where no lesion is named."""
    return line["lesion_id"].partition("_")[0]


class Isic2020(PublishedTable):
    """ISIC 2020.

    33,126 dermoscopic pictures of 2,056 patients (Rotemberg et al. 2021, CC BY-NC 4.0). Version 2 of the
    table names lesions; without it each picture is taken for a lesion of its own. Where the folder also holds
    `ISIC_2020_Training_Duplicates.csv`, its 425 pairs of one picture under two names are kept together.

    The data set has no skin tones. Most of its benign pictures were published without a diagnosis: theirs is
    `unknown`.

    Attributes:
        labels: the column that labels are taken from. `benign_malignant` is known of every picture;
            of `diagnosis`, `unknown` becomes no label.
    """

    name: Literal["isic2020"] = "isic2020"
    labels: Literal["benign_malignant", "diagnosis"] = "benign_malignant"
    table: ClassVar = "ISIC_2020_Training_GroundTruth*.csv"
    key: ClassVar = "image_name"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the table."""
        notes: list[str] = []
        site = "anatom_site_general_challenge"
        columns = ("patient_id", "sex", "age_approx", site, "diagnosis", "benign_malignant", "target")
        lines = self.lines(folder, *columns, notes=notes)
        folded = {kind: kind for kind in ("benign", "malignant")}
        codes = ISIC2020_CODES if self.labels == "diagnosis" else folded
        groups = {}
        if (duplicates := folder / "ISIC_2020_Training_Duplicates.csv").is_file():
            pairs = read_table(duplicates, ("image_name_1", "image_name_2"), notes=notes)
            groups = name_groups([[line["image_name_1"], line["image_name_2"]] for line in pairs])

        def cells(line: Line) -> dict[str, str]:
            name, says, target = line["image_name"], line["benign_malignant"], line["target"]
            label = code_of(name, line[self.labels], codes)
            if (says, target) not in {("benign", "0"), ("malignant", "1"), ("", "")}:
                raise AdapterError(
                    f"{name} has benign_malignant {says!r} and target {target!r}; "
                    f"published are benign with 0 and malignant with 1"
                )
            made = {
                "label": label,
                "lesion_id": line.get("lesion_id", ""),
                "patient_id": line["patient_id"],
                "site": line[site],
                "age": line["age_approx"],
                "sex": line["sex"],
                "diagnosis": line["diagnosis"],
                "benign_malignant": says,
                IMAGE_KIND: "dermoscopic",
            }
            return made | ({DUPLICATE_GROUP: groups.get(name, "")} if groups else {})

        return self.made(folder, lines, cells, notes)


class Milk10k(PublishedTable):
    """MILK10k; no options. Filter by the column `image_type` to keep one of the two kinds of picture.

    4,195 lesions, each with a clinical close-up and a dermoscopic picture (2025, CC BY-NC). Tones are on the
    data set's own scale `milk10k`, 0 (very dark) to 5 (very light).
    """

    name: Literal["milk10k"] = "milk10k"
    table: ClassVar = "MILK10k_Training_Metadata.csv"
    key: ClassVar = "isic_id"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table, labelled by its lesion's ground truth."""
        notes: list[str] = []
        labels = one_hot(folder / "MILK10k_Training_GroundTruth.csv", "lesion_id", notes)
        groups = name_groups(NEAR_DUPLICATES)

        def cells(line: Line) -> dict[str, str]:
            lesion = line["lesion_id"]
            if lesion not in labels:
                raise AdapterError(f"lesion {lesion} is in the metadata but not in the ground truth")
            return {
                "label": labels[lesion],
                "skin_tone": line["skin_tone_class"],
                "lesion_id": lesion,
                "site": line["site"],
                "image_type": line["image_type"],
                IMAGE_KIND: read_kind(line["image_type"]) or "",
                "age": line.get("age_approx", ""),
                "sex": line.get("sex", ""),
                DUPLICATE_GROUP: groups.get(lesion, ""),
            }

        lines = self.lines(folder, "lesion_id", "image_type", "skin_tone_class", "site", notes=notes)
        return self.made(folder, lines, cells, notes, scale="milk10k")


# Lesions under two numbers whose pictures are nearly the same: they must not part in a split.
NEAR_DUPLICATES = (
    ("IL_1562251", "IL_2734125"),
    ("IL_9590648", "IL_2812139"),
    ("IL_5835237", "IL_1808002"),
    ("IL_6365837", "IL_2779245"),
    ("IL_9247349", "IL_6755192"),
)


class PadUfes20(PublishedTable):
    """PAD-UFES-20; no options. SCC counts Bowen's disease too, BKL is seborrhoeic keratosis alone.

    2,298 smartphone pictures of 1,373 patients, six diagnoses (Pacheco et al. 2020, CC BY 4.0). Skin tones
    are Fitzpatrick types, in the column `fitspatrick` (as it is spelt); 804 pictures have none.

    A `lesion_id` of the table names a lesion only together with its patient: 250 of its values are under
    several patients. So a lesion is named by both here, as in the pictures' names: `PAT_46_881`.
    """

    name: Literal["pad-ufes-20"] = "pad-ufes-20"
    table: ClassVar = "metadata.csv"
    key: ClassVar = "img_id"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the metadata table."""

        def cells(line: Line) -> dict[str, str]:
            patient, lesion = line["patient_id"], line["lesion_id"]
            return {
                "label": code_of(line["img_id"], line["diagnostic"], PAD_UFES_20_CODES),
                "skin_tone": line["fitspatrick"],
                "lesion_id": f"{patient}_{lesion}" if lesion else "",
                "patient_id": patient,
                "site": line.get("region", "").lower(),
                "age": line.get("age", ""),
                "sex": line.get("gender", "").lower(),
                "biopsied": line.get("biopsed", "").lower(),
                IMAGE_KIND: "close-up",
            }

        notes: list[str] = []
        lines = self.lines(folder, "patient_id", "lesion_id", "diagnostic", "fitspatrick", notes=notes)
        return self.made(folder, lines, cells, notes, scale="fitzpatrick")
