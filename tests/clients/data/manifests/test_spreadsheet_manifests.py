"""Manifests that were opened in a spreadsheet, or went from one system to another."""

import re
import unicodedata
import zipfile
from pathlib import Path

import pytest

from clients.data.errors import ManifestError
from clients.data.manifests.csv_file import read_manifest, scan_manifest
from clients.data.manifests.delimited import read_delimited
from clients.data.manifests.text_file import UnreadableTableError, decode_table


def images(path: Path) -> list[str]:
    return [row.image for row in read_manifest(path).rows]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "image;label;site\na.jpg;MEL;Rücken\n".encode("cp1252"),
            "cp1252 with semicolons; it has the word 'Rücken'",
        ),
        (b"\xff\xfe" + "image\tlabel\tsite\na.jpg\tMEL\tRücken\n".encode("utf-16-le"), "UTF-16 with tabs"),
        ("sep=;\r\nimage;label;site\r\na.jpg;MEL;Rücken\r\n".encode(), "UTF-8 with semicolons"),
        ("image|label|site\na.jpg|MEL|Rücken\n".encode(), "UTF-8 with vertical bars"),
        ("image,label,site\ra.jpg,MEL,Rücken\r".encode(), ""),
        ("image,label,site\r\na.jpg,MEL,Rücken\r\n\x1a".encode(), ""),
        (
            "image;label;site;note (a, b, c, d, e)\na.jpg;MEL;Rücken;\n".encode(),
            "UTF-8 with semicolons",
        ),
    ],
)  # fmt: skip
def test_a_manifest_that_a_spreadsheet_saved_is_read_and_said(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "manifest.csv"
    path.write_bytes(content)
    manifest = read_manifest(path)
    (row,) = manifest.rows
    assert (row.image, row.label, row.site) == ("a.jpg", "MEL", "Rücken")
    assert list(manifest.notes) == ([f"manifest.csv: read as {said}"] if said else [])


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"PK\x03\x04" + bytes(40), "control character .* on line 1.*save it as `CSV UTF-8`"),
        (b"image,label\na.jpg,M\x00L\n", r"control character '\\x00' on line 2"),
        (b"\xff\xfei\x00m", "is not whole UTF-16"),
        ("image,site\na.jpg,Rücken".encode("cp850"), "is not whole CP1252"),
        (b"image,label\n\"a.jpg,MEL\nb.jpg,NV\n", "line 2: .*a quote that opens has to close"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_with_what_to_do(tmp_path: Path, content: bytes, advice: str) -> None:
    path = tmp_path / "manifest.csv"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=rf"{path} .*{advice}"):
        read_manifest(path)


@pytest.mark.parametrize("word", ["Patient’s", "Breslow–Tiefe", "5 €", "Größe", "naïve", "§ 12", "1 µm"])
def test_words_that_are_no_utf8_are_read_as_cp1252(word: str) -> None:
    assert decode_table(word.encode("cp1252")).text == word


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("control", ["\x1b[2J", "\x07", "\x0b", "\x1a", "\x7f"])
@pytest.mark.parametrize("given", [True, False])
def test_control_characters_are_refused_with_their_line_in_every_encoding(encoding, control, given) -> None:
    text = f'image,hospital\na.jpg,"Sankt\nÖstra"\r\nb.jpg,{control}x\n'
    shown = re.escape(repr(control[0]))
    with pytest.raises(
        UnreadableTableError, match=rf"control character {shown} on line 4.*save it as `CSV UTF-8`"
    ):
        decode_table(text.encode(encoding), encoding if given else None)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_controls_of_the_upper_half_are_refused(encoding: str) -> None:
    with pytest.raises(UnreadableTableError, match=r"control character '\\x9b' on line 1"):
        decode_table("image,\x9b2J\n".encode(encoding), encoding)


@pytest.mark.parametrize(
    "text", ['a,"two\nlines"\n', 'a,"two\r\nlines"\r\n', "a\tb\n", "a,b\rc,d\r", "a,b\n\x1a"]
)
def test_lines_and_tabs_are_no_control_characters(text: str) -> None:
    assert decode_table(text.encode()).text == text.removesuffix("\x1a")


def test_lines_have_their_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "manifest.csv"
    path.write_text('sep=,\nimage,label,note\na.jpg,MEL,"two\nlines"\n\nb.jpg,NV\n')
    assert [line.number for line in read_delimited(path, ["image"]).lines] == [3, 6]
    assert scan_manifest(path).problems == ("line 6: 2 cells where the header has 3",)


def test_columns_in_other_case_are_said(tmp_path: Path) -> None:
    path = tmp_path / "manifest.csv"
    path.write_text("Image,Label,Clinic,,\na.jpg,MEL,x,,\n")
    manifest = read_manifest(path)
    assert (manifest.rows[0].image, manifest.rows[0].label) == ("a.jpg", "")
    assert manifest.extra_columns == ("Label", "Clinic")
    assert manifest.notes[0] == "manifest.csv: column 'image' is read from 'Image'"
    assert "'Label' is kept as a column of its own" in manifest.notes[1]
    assert len(manifest.notes) == 2


def test_rounded_ids_are_said(tmp_path: Path) -> None:
    path = tmp_path / "manifest.csv"
    path.write_text("image,patient_id\na.jpg,1.23E+05\nb.jpg,7\nc.jpg,1E+05\n")
    (note,) = read_manifest(path).notes
    assert note.startswith("patient_id: 2 cells are numbers that a spreadsheet rounded")
    assert "the first on line 2" in note


@pytest.fixture
def there(tmp_path: Path) -> Path:
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
def test_an_image_that_is_not_there_is_the_one_file_that_fits(there: Path, image: str, found: str) -> None:
    path = there / "manifest.csv"
    path.write_text(f"image,label\n{image},MEL\n")
    assert images(path) == [found]
    assert len(read_manifest(path).notes) == (image != found)
    path.write_text(f"image,label\n{there / image},MEL\n")
    assert images(path) == [str(there / found)]


def test_a_drive_is_looked_for_where_the_others_are(there: Path) -> None:
    path = there / "manifest.csv"
    path.write_text("image\nother/d.jpg\nC:\\x\\D.jpg\nC:\\x\\a.jpg\n")
    with pytest.raises(ManifestError, match=r"line 3: image 'other/d.jpg' is on line 2 already"):
        read_manifest(path)
    path.write_text("image\nimages/two.jpg\nC:\\x\\A.jpg\n")
    assert images(path) == ["images/two.jpg", "images/a.jpg"]


def test_a_name_that_is_too_long_is_no_file(there: Path) -> None:
    path, name = there / "manifest.csv", "x" * 300
    path.write_text(f"image\n{name}.jpg\n{name}/a.jpg\n")
    assert images(path) == [f"{name}.jpg", f"{name}/a.jpg"]


def test_a_header_with_a_line_break_is_read(there: Path) -> None:
    path = there / "manifest.csv"
    path.write_text('"note; of\nthe archive",image;label\n'.replace(",", ";") + "x;images/a.jpg;MEL\n")
    (row,) = read_manifest(path).rows
    assert (row.image, row.label) == ("images/a.jpg", "MEL")
