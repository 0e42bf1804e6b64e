"""Derm7pt: 1,011 cases, each with a dermoscopic and a clinical picture (Kawahara et al. 2019, for research).

The folder holds `meta.csv`, also as `meta/meta.csv`, the pictures, unpacked or in zip files, and, optionally
in the table's folder, the three published files of row numbers `train_indexes.csv`, `valid_indexes.csv` and
`test_indexes.csv`. `case_num` is the lesion: both its pictures stay together, also over two manifests. A
derived table without `case_num` has one picture a case. A few pictures stand in several cells, for the
archive holds 2,013: each is listed once, under its first case, the column `other_cases` names the rest, all
these cases are kept together, and what they do not agree on is not known of it.

The data set has no skin tones and no patients. The diagnoses lentigo, melanosis and miscellaneous have no
code, and keep their published names. Lists of a subset's rows leave the others without a published split.
"""

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import (
    OF_SEVERAL_CASES,
    code_of,
    manifest_of_cases,
    read_table,
    refuse_unnamed,
)
from clients.data.errors import AdapterError
from clients.data.manifest import IMAGE_KIND, Manifest
from registry.bundle.cases import read_kind

_NEVI = ("blue", "clark", "combined", "congenital", "dermal", "recurrent", "reed or spitz")
_MELANOMAS = (
    "melanoma",
    "melanoma (in situ)",
    "melanoma (less than 0.76 mm)",
    "melanoma (0.76 to 1.5 mm)",
    "melanoma (more than 1.5 mm)",
    "melanoma metastasis",
)
CODES = {
    "basal cell carcinoma": "BCC",
    **{f"{nevus} nevus": "NV" for nevus in _NEVI},
    **dict.fromkeys(_MELANOMAS, "MEL"),
    "seborrheic keratosis": "BKL",
    "dermatofibroma": "DF",
    "vascular lesion": "VASC",
    "lentigo": "lentigo",
    "melanosis": "melanosis",
    "miscellaneous": "miscellaneous",
}
KINDS = {"derm": "dermoscopic", "clinic": "clinical"}
SPLITS = {"train": "train", "valid": "validation", "test": "test"}


class Derm7pt(Adapter):
    """Derm7pt.

    Attributes:
        picture: which of a case's pictures, by its column; `both` makes two rows a case.
        split: `job` leaves the split to the job, and keeps the published one as the column `published_split`;
            `published` makes it the split.
        indexes: the files of row numbers, counted from 0; `{split}` is replaced by train, valid and test.
    """

    name: Literal["derm7pt"] = "derm7pt"
    picture: Literal["derm", "clinic", "both"] = "derm"
    split: Literal["job", "published"] = "job"
    indexes: str = "{split}_indexes.csv"

    @field_validator("indexes")
    @classmethod
    def _has_a_place_for_the_split(cls, pattern: str) -> str:
        if "{split}" not in pattern:
            raise ValueError(f"{pattern!r} has no {{split}}, which stands for {', '.join(SPLITS)}")
        return pattern

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture that is asked for, in the order of the table."""
        notes: list[str] = []
        table = folder / "meta.csv" if (folder / "meta.csv").is_file() else folder / "meta" / "meta.csv"
        kinds = list(KINDS) if self.picture == "both" else [self.picture]
        needed = ("case_num",) if self.picture == "both" else ()
        lines = read_table(table, ("diagnosis", *kinds, *needed), notes=notes)
        key = "case_num" if "case_num" in lines[0] else kinds[0]
        refuse_unnamed(table, lines, key)
        if twice := [name for name, count in Counter(line[key] for line in lines).items() if count > 1]:
            raise AdapterError(
                f"{table} has {key} {', '.join(twice[:5])} twice; put the published table there"
            )
        splits = self._splits(table, len(lines), notes)
        shown = []
        for number, line in enumerate(lines):
            case, split = line.get("case_num", ""), (splits or {}).get(number, "")
            for kind in kinds:
                if not line[kind]:
                    raise AdapterError(f"{table}, line {number + 2}: {kind} is empty")
                cells = {
                    "label": code_of(line[kind], line["diagnosis"], CODES),
                    "lesion_id": f"derm7pt_{case}" if case else "",
                    "site": line.get("location", ""),
                    "split": split if self.split == "published" else "",
                    "image_type": KINDS[kind],
                    IMAGE_KIND: read_kind(KINDS[kind]) or "",
                    "diagnosis": line["diagnosis"],
                    "sex": line.get("sex", ""),
                    **OF_SEVERAL_CASES,
                    **({} if splits is None else {"published_split": split}),
                }
                shown.append((line[kind], cells))
        same = ("label", "split", "diagnosis", "published_split")
        return manifest_of_cases(shown, folder, notes, same=same)

    def _splits(self, table: Path, count: int, notes: list[str]) -> dict[int, str] | None:
        """The published split of the rows that have one; None where no file says so and none is needed."""
        files = {split: table.parent / self.indexes.replace("{split}", split) for split in SPLITS}
        if self.split == "job" and not any(path.is_file() for path in files.values()):
            return None
        splits: dict[int, str] = {}
        for published, path in files.items():
            for line in read_table(path, ("indexes",), key="indexes", notes=notes):
                text = line["indexes"]
                if not text.isdecimal() or int(text) >= count:
                    raise AdapterError(
                        f"{path} has the row number {text!r}; meta.csv has rows 0 to {count - 1}"
                    )
                if int(text) in splits:
                    raise AdapterError(
                        f"{path} has row {text}, which is in the {splits[int(text)]} split already"
                    )
                splits[int(text)] = SPLITS[published]
        return splits
