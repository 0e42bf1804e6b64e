import pytest

from clients.data.picture_names import NameMatch, PictureNames


@pytest.mark.parametrize(
    ("name", "files", "place"),
    [
        ("a.jpg", ("a.jpg", "A.jpg", "x/a.jpg"), "a.jpg"),
        ("a.jpg", ("a.JPG", "a.png"), "a.JPG"),
        ("p1/a.jpg", ("x/p1/a.jpg", "x/p2/a.jpg"), "x/p1/a.jpg"),
        ("a 1.jpg", ("a\u202f1.jpg",), "a\u202f1.jpg"),
        ("x/a 1.jpg", ("p/a\u202f1.jpg", "p/a 1.jpg"), "p/a 1.jpg"),
        ("1.2.840.1", ("1.2.840.1", "1.2.840.2"), "1.2.840.1"),
    ],
)
def test_the_one_file_that_fits_best_is_found(name, files, place):
    found = PictureNames(files).find(name)
    assert (found.place, found.several) == (place, ())


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("12", ("0012.jpg",)),
        ("0012.jpg", ("12.jpg",)),
        ("a.jpg", ("a.tif",)),  # another file of the same motif, which is not read
        ("a.tif", ("a.jpg",)),
        ("a.jpg", ("ab.jpg",)),
        ("", ("a.jpg",)),
        ("https://x/a.jpg", ("a.jpg",)),
    ],
)
def test_what_does_not_fit_is_not_found(name, files):
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
def test_of_several_that_fit_alike_none_is_taken(name, files):
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
def test_a_manifest_does_not_look_into_other_folders(name, place):
    assert PictureNames(["images/a.jpg"]).find(name, anywhere=False).place == place


@pytest.mark.parametrize(
    ("files", "like"),
    [
        (("12.tif", "0012.jpg"), ("12.tif",)),
        (("0012.jpg", "13.jpg", "x12.jpg"), ("0012.jpg",)),
        (("13.jpg",), ()),
    ],
)
def test_of_a_file_that_is_not_there_similar_ones_are_named(files, like):
    assert PictureNames(files).like("12.jpg") == like
