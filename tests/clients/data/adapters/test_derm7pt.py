import csv
from collections import Counter

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError

META = """case_num,diagnosis,location,sex,clinic,derm
1,blue nevus,back,female,NEL/Nel025.jpg,NEL/Nel026.jpg
2,melanoma metastasis,,,NEL/Nel027.jpg,NEL/Nel028.jpg
3,lentigo,head neck,male,NEL/Nel029.jpg,NEL/Nel030.jpg
"""
PICTURES = [f"NEL/Nel{number:03d}.jpg" for number in range(25, 31)]
INDEXES = {
    "train_indexes.csv": "indexes\n0\n",
    "valid_indexes.csv": "indexes\n2\n",
    "test_indexes.csv": "indexes\n1\n",
}


def test_both_pictures_of_a_case_are_one_lesion(published, imported):
    folder = published({"meta.csv": META}, PICTURES)
    rows = imported("derm7pt", folder, picture="both").rows
    assert [row.lesion_id for row in rows] == [f"derm7pt_{case}" for case in (1, 1, 2, 2, 3, 3)]
    assert [row.label for row in rows[::2]] == ["NV", "MEL", "lentigo"]
    assert [row.extra["image_type"] for row in rows[:2]] == ["dermoscopic", "clinical"]
    assert [row.extra["image_kind"] for row in rows[:2]] == ["dermoscopic", "close-up"]
    assert rows[0].image == "published/NEL/Nel026.jpg"
    assert (rows[0].site, rows[0].extra["sex"], rows[0].extra["diagnosis"]) == (
        "back",
        "female",
        "blue nevus",
    )
    assert "published_split" not in rows[0].extra


def test_a_picture_of_several_cases_is_listed_once(published, imported):
    shared = META.replace("Nel027", "Nel025").replace("Nel029.jpg,NEL/Nel030", "Nel030.jpg,NEL/Nel030")
    manifest = imported("derm7pt", published({"meta.csv": shared, **INDEXES}, PICTURES), picture="both")
    assert [row.image[-7:-4] for row in manifest.rows] == ["026", "025", "028", "030"]
    assert manifest.values("label") == ["NV", "", "MEL", "lentigo"]
    assert manifest.values("other_cases") == ["", "derm7pt_2", "", ""]
    assert manifest.values("published_split") == ["train", "", "test", "validation"]
    first, second, third, last = manifest.values("duplicate_group")
    assert first == second == third == "derm7pt_1"
    assert last in ("", "derm7pt_3")


def test_the_layout_of_the_archive(published, import_command):
    folder = published({}, [f"images/{name}" for name in PICTURES])
    (folder / "meta").mkdir()
    for name, text in {"meta.csv": META, **INDEXES}.items():
        (folder / "meta" / name).write_text(text)
    manifest = import_command("derm7pt", folder, split="published")
    assert manifest.values("split") == ["train", "test", "validation"]


def test_a_cell_without_a_picture_is_refused(published, imported):
    folder = published({"meta.csv": META.replace("NEL/Nel027.jpg", "")}, PICTURES)
    assert len(imported("derm7pt", folder).rows) == 3
    with pytest.raises(AdapterError, match="line 3: clinic is empty"):
        imported("derm7pt", folder, picture="both")


def test_published_splits_are_kept_and_used_when_asked(published, import_command):
    folder = published({"meta.csv": META, **INDEXES}, PICTURES)
    kept = make_adapter("derm7pt", {}).manifest(folder)
    assert kept.values("published_split") == ["train", "test", "validation"]
    assert kept.values("split") == ["", "", ""]
    assert import_command("derm7pt", folder, split="published").values("split") == [
        "train",
        "test",
        "validation",
    ]


@pytest.mark.parametrize(
    ("indexes", "match"),
    [
        ({"valid_indexes.csv": "indexes\n3\n"}, r"row number '3'; meta\.csv has rows 0 to 2"),
        ({"valid_indexes.csv": "indexes\n-1\n"}, "row number '-1'"),
        ({"valid_indexes.csv": "indexes\n0\n"}, "row 0, which is in the train split already"),
    ],
)
def test_row_numbers_that_do_not_fit_are_refused(published, imported, indexes, match):
    with pytest.raises(AdapterError, match=match):
        imported("derm7pt", published({"meta.csv": META, **INDEXES, **indexes}, PICTURES))


def test_what_is_asked_for_and_not_there_is_said(published, imported):
    folder = published({"meta.csv": "diagnosis,derm\nlentigo,NEL/Nel026.jpg\n"}, PICTURES)
    assert imported("derm7pt", folder).rows[0].lesion_id == ""
    with pytest.raises(AdapterError, match="has no column clinic"):
        imported("derm7pt", folder, picture="clinic")
    with pytest.raises(AdapterError, match="has no column clinic, case_num"):
        imported("derm7pt", folder, picture="both")
    with pytest.raises(AdapterError, match=r"train_indexes\.csv does not exist"):
        imported("derm7pt", folder, split="published")
    with pytest.raises(AdapterError, match=r"'indexes.csv' has no \{split\}"):
        imported("derm7pt", folder, indexes="indexes.csv")


@pytest.mark.real
def test_derm7pt_as_published(as_published, real_table):
    """A derived table, without case numbers and clinical pictures, and with lists of its own."""
    home = "csv_only/derm7pt_consistent"
    with real_table(f"{home}/meta.csv").open(newline="") as file:
        pictures = [line["derm"] for line in csv.DictReader(file)]
    lists = [f"{home}/symmetric_{split}_indexes_filtered.csv" for split in ("train", "valid", "test")]
    folder = as_published([f"{home}/meta.csv", *lists], pictures)
    options = {"indexes": "symmetric_{split}_indexes_filtered.csv", "split": "published"}
    manifest = make_adapter("derm7pt", options).manifest(folder)
    assert Counter(manifest.values("label")) == {
        "NV": 575, "MEL": 252, "BKL": 45, "BCC": 42, "VASC": 29, "lentigo": 24, "DF": 20, "melanosis": 16,
        "miscellaneous": 8,
    }  # fmt: skip
    assert Counter(manifest.values("split")) == {"train": 298, "validation": 135, "test": 272, "": 306}
