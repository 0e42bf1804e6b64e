from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data.errors import ManifestError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import match_images, read_manifest, write_manifest
from registry.bundle.text import printable


def written(folder: Path, text: str) -> Path:
    path = folder / "manifest.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_known_and_extra_columns_in_any_order(tmp_path):
    path = written(
        tmp_path,
        "clinic,label,image,skin_tone,skin_tone_scale,split\n"
        "Wien,MEL,a.jpg,IV,Fitzpatrick,train\n"
        " ,NV,images.zip::b.jpg,,,\n",
    )
    first, second = read_manifest(path).rows
    assert first == Row(
        "a.jpg", "MEL", skin_tone="4", skin_tone_scale="fitzpatrick", split="train", extra={"clinic": "Wien"}
    )
    assert second == Row("images.zip::b.jpg", "NV", extra={"clinic": ""})


@pytest.mark.parametrize("nothing", ["", "nan", "NaN", "None", "null", "NA", " n/a "])
def test_spellings_of_nothing_are_empty(tmp_path, nothing):
    path = written(tmp_path, f"image,label,lesion_id,age\na.jpg,MEL,{nothing},{nothing}\n")
    row = read_manifest(path).rows[0]
    assert (row.lesion_id, row.extra) == ("", {"age": ""})


def test_all_problems_are_listed_with_their_lines(tmp_path):
    path = written(
        tmp_path,
        "image,skin_tone,skin_tone_scale,split\n"
        "a.jpg,9,fitzpatrick,train\n"
        "b.jpg,3,,\n"
        "c.jpg,,,tets\n"
        ",,,train\n"
        "a.jpg,,,\n"
        "d.jpg,3\n"
        "e.jpg,3,fitzgerald,\n"
        "f.jpg,3,monk,\n",
    )
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    text = str(caught.value)
    assert "has 7 problems" in text
    for problem in (
        "line 2: skin tone '9' is not on the scale fitzpatrick",
        "line 3: skin tone '3' has no skin_tone_scale",
        "line 4: split 'tets' does not exist; did you mean `test`",
        "line 5: image is empty",
        "line 6: image 'a.jpg' is on line 2 already",
        "line 7: 2 cells where the header has 4",
        "line 8: skin tone scale 'fitzgerald' does not exist",
    ):
        assert problem in text


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("label\nMEL\n", "no column 'image'; its columns: label"),
        ("", "no column 'image'; its columns: none"),
        ("image,label,label\n", "the column label more than once"),
        ("image,label\n", "lists no pictures"),
        ('image,label\n"a.jpg,MEL\n', "not a CSV file"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path, text, match):
    with pytest.raises(ManifestError, match=match):
        read_manifest(written(tmp_path, text))


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(ManifestError, match="does not exist; make one with"):
        read_manifest(tmp_path / "manifest.csv")
    (tmp_path / "manifest.csv").write_bytes(b"image\n\x00\xfe\n")
    with pytest.raises(ManifestError, match="UTF-8"):
        read_manifest(tmp_path / "manifest.csv")


@pytest.mark.parametrize(
    "row",
    [
        Row("a\x1b[2J.jpg"),
        Row("a.jpg", label="M\x9bL"),
        Row("a.jpg", extra={"ward": "\x07"}),
        Row("\udce9.jpg"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, row):
    with pytest.raises(ManifestError, match="rename these files, or take the characters out") as caught:
        write_manifest(Manifest.of([Row("b.jpg"), row], tmp_path), tmp_path / "m.csv")
    assert printable(str(caught.value)) == str(caught.value)
    assert not (tmp_path / "m.csv").exists()


def test_writing_elsewhere_keeps_pointing_at_the_same_pictures(tmp_path):
    rows = [Row("a.jpg"), Row("in/images.zip::x/b.jpg"), Row("/elsewhere/c.jpg")]
    write_manifest(Manifest.of(rows, tmp_path / "data"), tmp_path / "out" / "deep" / "m.csv")
    images = [row.image for row in read_manifest(tmp_path / "out" / "deep" / "m.csv").rows]
    assert images == ["../../data/a.jpg", "../../data/in/images.zip::x/b.jpg", "/elsewhere/c.jpg"]


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), max_size=8).filter(
    lambda text: text.lower() not in {"nan", "none", "null", "na", "n/a"}
)


@given(cells=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("written")
    rows = [
        Row(f"{number}.jpg", label=label, lesion_id=lesion, extra={"note, with comma": note})
        for number, (label, lesion, note) in enumerate(cells)
    ]
    write_manifest(Manifest.of(rows, folder), folder / "manifest.csv")
    assert read_manifest(folder / "manifest.csv").rows == tuple(rows)
    assert [path.name for path in folder.iterdir()] == ["manifest.csv"]


def test_a_line_that_is_there_twice_counts_once(tmp_path):
    path = written(tmp_path, "image,label,age\na.jpg,NV,40\nb.jpg,MEL,\na.jpg,NV,40\n")
    read = read_manifest(path)
    assert [row.image for row in read.rows] == ["a.jpg", "b.jpg"]
    assert any("1 lines repeat an earlier one and count once" in note for note in read.notes)
    path = written(tmp_path, "image,label,age\na.jpg,NV,40\na.jpg,NV,41\n")
    with pytest.raises(
        ManifestError, match=r"'a.jpg' is on line 2 already, with age '40' there and '41' here"
    ):
        read_manifest(path)


def test_a_folder_that_is_spelt_in_another_way_is_looked_into_where_it_is_the_only_one(tmp_path):
    for folder in ("one/Images", "two/Images", "two/IMAGES"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.jpg").touch()
    asked = ["one/images/a.jpg", f"{tmp_path}/one/images/a.jpg", "two/images/a.jpg"]
    found = ["one/Images/a.jpg", f"{tmp_path}/one/Images/a.jpg", "two/images/a.jpg"]
    assert match_images(asked, tmp_path)[0] == found
