import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clients.data.adapters.published import images_of, read_table
from clients.data.errors import AdapterError
from clients.data.picture_names import files_of


def test_pictures_are_found_in_folders_and_zip_files(tmp_path):
    (tmp_path / "part 1").mkdir()
    (tmp_path / "part 1" / "a.JPG").touch()
    (tmp_path / "notes.txt").touch()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for name in ("images/b.png", "readme.md", "__MACOSX/._b.png"):
            archive.writestr(name, b"")
    assert files_of(tmp_path).pictures == ["part 1/a.JPG", "z.zip::images/b.png"]


def test_what_is_not_there_or_broken_is_said(tmp_path):
    with pytest.raises(AdapterError, match="does not exist"):
        images_of(["a"], tmp_path / "no", notes=[])
    (tmp_path / "z.zip").write_text("no zip file")
    with pytest.raises(AdapterError, match="no zip file that can be read"):
        images_of(["a"], tmp_path, notes=[])


def test_a_missing_picture_keeps_its_published_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.jpg", b"")
    assert images_of(["a", "a.png", "b", "c/b.png", "a_small"], tmp_path, ending="_small", notes=[]) == [
        "z.zip::a.jpg",
        "z.zip::a.jpg",
        "b.jpg",
        "c/b.png",
        "z.zip::a.jpg",
    ]


def test_where_no_picture_is_there_all_are_counted(tmp_path):
    (tmp_path / "x.jpg").touch()
    with pytest.raises(AdapterError, match=rf"all 2 .* are missing: none is in {tmp_path}, .* hold 1 other"):
        images_of(["a", "b.png"], tmp_path, notes=[])
    elsewhere = tmp_path / "far" / "a.jpg"
    elsewhere.parent.mkdir()
    elsewhere.touch()
    assert images_of([str(elsewhere)], tmp_path / "far", notes=[]) == ["a.jpg"]
    assert images_of(["../x.jpg"], tmp_path / "far", notes=[]) == ["../x.jpg"]


def test_the_key_of_a_table_is_filled_and_counts_once(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,x\n,y\n1,z\n")
    with pytest.raises(AdapterError, match=r"1 problems:(?s:.*)line 3: a is empty"):
        read_table(table, ["a"], key="a", notes=[])
    assert len(read_table(table, ["a"], key="b", notes=[])) == 3
    table.write_text("a,b,c\n1,x,p\n2,y,p\n1,z,p\n2,y,q\n")
    notes: list[str] = []
    assert [line.number for line in read_table(table, ["a"], key="a", notes=notes)] == [2, 3]
    assert notes == ["t.csv: 2 lines repeat an earlier one and count once"], "c and b are not asked for"
    with pytest.raises(
        AdapterError, match=r"1 lines that contradict(?s:.*)lines 2 and 4, a 1: b 'x' and 'z'"
    ):
        read_table(table, ["a", "b"], key="a", notes=[])


def test_a_missing_picture_is_not_another_lines(tmp_path):
    for name in ("train/1.jpg", "train/2.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    notes: list[str] = []
    named = ["train/1.jpg", "test/1.jpg", "test/2.jpg"]
    assert images_of(named, tmp_path, notes=notes) == ["train/1.jpg", "test/1.jpg", "train/2.jpg"]
    assert notes == ["1 pictures are named with another folder, e.g. 'test/2.jpg' for 'train/2.jpg'"]


def test_a_folder_that_is_closed_is_said(tmp_path, monkeypatch):
    (tmp_path / "a.jpg").touch()
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(folder: Path) -> Any:
        if folder.name == "closed":
            raise PermissionError(13, "Permission denied")  # root may look into every folder
        return scandir(folder)

    monkeypatch.setattr("clients.data.picture_names.os.scandir", refuse)
    notes: list[str] = []
    assert images_of(["a"], tmp_path, notes=notes) == ["a.jpg"]
    assert notes == [f"1 folders may not be looked into, e.g. '{tmp_path / 'closed'}'"]


def test_links_are_followed_once_and_those_that_lead_nowhere_are_no_files(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.jpg").touch()
    (tmp_path / "again").symlink_to("real")
    (tmp_path / "real" / "up").symlink_to("..")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "gone.jpg").symlink_to("nowhere.jpg")
    assert files_of(tmp_path).places == ["real/a.jpg"]
