"""Manifests that were opened in a spreadsheet, or went from one system to another."""

import re
import unicodedata
import zipfile
from pathlib import Path

import pytest

from clients.data.delimited import UnreadableTableError, decode_table, read_delimited
from clients.data.manifest_file import read_manifest, scan_manifest


def images(path: Path) -> list[str]:
    return [row.image for row in read_manifest(path).rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("control", ["\x1b[2J", "\x07", "\x0b", "\x1a", "\x7f"])
@pytest.mark.parametrize("given", [True, False])
def test_control_characters_are_refused_with_their_line_in_every_encoding(encoding, control, given):
    text = f'image,hospital\na.jpg,"Sankt\nÖstra"\r\nb.jpg,{control}x\n'
    shown = re.escape(repr(control[0]))
    with pytest.raises(
        UnreadableTableError, match=rf"control character {shown} on line 4.*save it as `CSV UTF-8`"
    ):
        decode_table(text.encode(encoding), encoding if given else None)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_controls_of_the_upper_half_are_refused(encoding):
    with pytest.raises(UnreadableTableError, match=r"control character '\\x9b' on line 1"):
        decode_table("image,\x9b2J\n".encode(encoding), encoding)


@pytest.mark.parametrize(
    "text", ['a,"two\nlines"\n', 'a,"two\r\nlines"\r\n', "a\tb\n", "a,b\rc,d\r", "a,b\n\x1a"]
)
def test_lines_and_tabs_are_no_control_characters(text):
    assert decode_table(text.encode()).text == text.removesuffix("\x1a")


def test_lines_have_their_number_in_the_file(tmp_path):
    path = tmp_path / "manifest.csv"
    path.write_text('sep=,\nimage,label,note\na.jpg,MEL,"two\nlines"\n\nb.jpg,NV\n')
    assert [line.number for line in read_delimited(path, ["image"]).lines] == [3, 6]
    assert scan_manifest(path).problems == ("line 6: 2 cells where the header has 3",)


@pytest.fixture
def there(tmp_path):
    for name in ("images/a.jpg", "images/Ü.jpg", "images/two.jpg", "images/two.png", "other/d.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("in/c.jpg", b"")
    return tmp_path


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("images\\a.jpg", "images/a.jpg"),
        ("Images/A.JPEG", "images/a.jpg"),
        (unicodedata.normalize("NFD", "images/Ü.jpg"), "images/Ü.jpg"),
        ("z.zip::in/C.jpeg", "z.zip::in/c.jpg"),
        ("images/d.jpg", "images/d.jpg"),  # it is in another folder
        ("images/two.jpeg", "images/two.jpeg"),  # two fit
        ("12.jpg", "12.jpg"),
    ],
)
def test_an_image_that_is_not_there_is_the_one_file_that_fits(there, image, found):
    path = there / "manifest.csv"
    path.write_text(f"image,label\n{image},MEL\n")
    assert images(path) == [found]
    assert len(read_manifest(path).notes) == (image != found)
    path.write_text(f"image,label\n{there / image},MEL\n")
    assert images(path) == [str(there / found)]


def test_a_name_that_is_too_long_is_no_file(there):
    path, name = there / "manifest.csv", "x" * 300
    path.write_text(f"image\n{name}.jpg\n{name}/a.jpg\n")
    assert images(path) == [f"{name}.jpg", f"{name}/a.jpg"]
