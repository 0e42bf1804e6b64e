import unicodedata

import pytest

from clients.data.pictures.names import NameMatch, PictureNames, is_foreign, is_url, matches_said

NFD = unicodedata.normalize("NFD", "Läsion.jpg")


@pytest.mark.parametrize(
    ("name", "files", "place", "how"),
    [
        ("a.jpg", ("a.jpg", "A.jpg", "x/a.jpg"), "a.jpg", ""),
        ("a", ("x/a.jpg", "b.jpg"), "x/a.jpg", ""),
        ("p1/a.jpg", ("x/p1/a.jpg", "x/p2/a.jpg"), "x/p1/a.jpg", ""),
        ("p1\\a.jpg", ("p1/a.jpg",), "p1/a.jpg", "backslashes"),
        ("./a.jpg", ("a.jpg",), "a.jpg", "`./` in front"),
        ("A.jpg", ("a.jpg",), "a.jpg", "other case"),
        ("a.JPG", ("a.jpg",), "a.jpg", "other case"),
        ("a.jpeg", ("a.jpg",), "a.jpg", ".jpeg for .jpg"),
        ("A.jpeg", ("a.jpg",), "a.jpg", "other case and .jpeg for .jpg"),
        ("a.jpg", ("a.JPG", "a.png"), "a.JPG", "other case"),
        ("Läsion.jpg", (NFD,), NFD, "another Unicode form (NFC or NFD)"),
        (NFD, ("Läsion.jpg",), "Läsion.jpg", "another Unicode form (NFC or NFD)"),
        ("a 1.jpg", ("a\u202f1.jpg",), "a\u202f1.jpg", "other blanks"),
        ("q/a.jpg", ("p/a.jpg",), "p/a.jpg", "another folder"),
        ("D:\\x\\a.jpg", ("p/a.jpg",), "p/a.jpg", "a Windows drive or share in front"),
        ("\\\\host\\x\\a.jpg", ("p/a.jpg",), "p/a.jpg", "a Windows drive or share in front"),
        ("1.2.840.1", ("1.2.840.1", "1.2.840.2"), "1.2.840.1", ""),
        ("IM01", ("scan/IM01",), "scan/IM01", ""),
        ("z.zip::A.jpg", ("z.zip::a.jpg",), "z.zip::a.jpg", "other case"),
    ],
)  # fmt: skip
def test_the_one_file_that_fits_is_found(name: str, files: tuple[str, ...], place: str, how: str) -> None:
    found = PictureNames(files).find(name)
    assert (found.place, found.how, found.several) == (place, how, ())


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("12", ("0012.jpg",)),
        ("0012.jpg", ("12.jpg",)),
        ("a.jpg", ("a.heic",)),  # another file of the same motif, which is not read
        ("a.heic", ("a.jpg",)),
        ("a.jpg", ("ab.jpg",)),
        ("", ("a.jpg",)),
        ("https://x/a.jpg", ("a.jpg",)),
    ],
)
def test_what_does_not_fit_is_not_found(name: str, files: tuple[str, ...]) -> None:
    assert PictureNames(files).find(name) == NameMatch()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("a", ("a.jpg", "a.png")),
        ("a.jpg", ("p1/a.jpg", "p2/a.jpg")),
        ("x/a.jpg", ("p1/a.jpg", "p2/A.jpg")),
        ("A.JPG", ("a.jpg", "A.jpg")),
    ],
)
def test_of_several_that_fit_alike_none_is_taken(name: str, files: tuple[str, ...]) -> None:
    found = PictureNames(files).find(name)
    assert (found.place, found.several) == ("", files)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("images\\a.JPG", "images/a.jpg"),
        ("IMAGES/a.jpg", "images/a.jpg"),
        ("other/a.jpg", ""),
        ("a.jpg", ""),
        ("C:\\far\\a.jpg", "images/a.jpg"),
    ],
)
def test_a_manifest_does_not_look_into_other_folders(name: str, place: str) -> None:
    assert PictureNames(["images/a.jpg"]).find(name, anywhere=False).place == place


def test_files_that_may_have_been_meant_are_told() -> None:
    names = PictureNames(["0012.jpg", "13.jpg", "a.heic"])
    assert names.like("12.jpg") == ("0012.jpg",)
    assert names.like("a.jpg") == ("a.heic",)
    assert names.like("b.jpg") == ()


def test_ways_are_counted_with_an_example() -> None:
    names = ("A.jpg", "B.jpg", "c.jpeg", "d.jpg")
    index = PictureNames(["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    assert matches_said(names, [index.find(name) for name in names]) == [
        "2 pictures are named with other case, e.g. 'A.jpg' for 'a.jpg'",
        "1 pictures are named with .jpeg for .jpg, e.g. 'c.jpeg' for 'c.jpg'",
    ]


@pytest.mark.parametrize(
    ("name", "url", "foreign"),
    [
        ("https://x/a.jpg", True, False),
        ("s3://x/a.jpg", True, False),
        ("C:/a.jpg", False, True),
        ("\\\\host\\a.jpg", False, True),
        ("z.zip::a.jpg", False, False),
        ("/data/a.jpg", False, False),
    ],
)
def test_addresses_and_drives_are_told(name: str, url: bool, foreign: bool) -> None:
    assert (is_url(name), is_foreign(name)) == (url, foreign)
