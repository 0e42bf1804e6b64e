import os
import zipfile
from pathlib import Path

import pytest

from clients.data.check import NO_BYTES, absent_pictures, unlisted_beside, unlisted_in
from clients.data.manifest import Manifest, Row
from clients.data.picture_names import by_cause


@pytest.fixture
def folder(tmp_path):
    for name in ("p/a.jpg", "p/b.jpg", "q/c.jpg", "q/notes.txt", "p/._a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for name in ("in/d.jpg", "in/e.jpg", "readme.md"):
            archive.writestr(name, b"x")
    return tmp_path


def manifest(folder: Path, *images: str) -> Manifest:
    return Manifest.of([Row(image) for image in images], folder)


@pytest.mark.parametrize(
    ("images", "inside", "beside"),
    [
        (("p/a.jpg",), ("p/b.jpg", "q/c.jpg", "z.zip::in/d.jpg", "z.zip::in/e.jpg"), ("p/b.jpg",)),
        (("p/a.jpg", "p/b.jpg", "q/c.jpg", "z.zip::in/d.jpg"), ("z.zip::in/e.jpg",), ("z.zip::in/e.jpg",)),
        (("p/a.jpg", "./p/b.jpg", "q/c.jpg", "z.zip::in/d.jpg", "z.zip::in/e.jpg"), (), ()),
        (("gone/a.jpg",), ("p/a.jpg", "p/b.jpg", "q/c.jpg", "z.zip::in/d.jpg", "z.zip::in/e.jpg"), ()),
    ],
)
def test_pictures_that_no_line_names_are_found(folder, images, inside, beside):
    named = manifest(folder, *images)
    assert unlisted_in(named, folder).examples == inside
    assert unlisted_beside(named).examples == beside
    assert unlisted_in(named, folder).count == len(inside)


def test_one_file_under_two_names_is_named_by_either(folder):
    (folder / "share").symlink_to("p")
    os.link(folder / "q" / "c.jpg", folder / "q" / "C.jpg")  # as a disk answers that does not tell case apart
    assert unlisted_beside(manifest(folder, "share/a.jpg", "p/b.jpg", "q/C.jpg")).count == 0


def test_absent_pictures_are_told_without_reading_any(folder):
    (folder / "p" / "b.jpg").write_bytes(b"")
    absent = absent_pictures(
        manifest(folder, "p/a.jpg", "p/b.jpg", "p/x.jpg", "z.zip::in/d.jpg", "z.zip::in/x.jpg", "p/y.jpg")
    )
    assert [place for place, picture in absent.items() if picture.reason != NO_BYTES] == [2, 4, 5]
    assert absent[1].reason == NO_BYTES
    causes = by_cause(absent.values())
    assert next(iter(causes.items())) == ("there is no such file", ["p/x.jpg", "p/y.jpg"])
    assert len(causes) == 3
