import io
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from clients.data.pictures import causes
from clients.data.pictures.causes import UnusablePicture, by_cause, counted
from clients.data.pictures.files import PictureReader, UnreadablePictureError, locate
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture


def jpeg(size: int = 64) -> bytes:
    content = io.BytesIO()
    Image.effect_noise((size, size), 60).convert("RGB").save(content, format="JPEG")
    return content.getvalue()


def unusable(image: str, folder: Path) -> UnusablePicture:
    """A picture with the words of the reader or decoder that refuses it."""
    file = locate(image, folder)
    try:
        with PictureReader() as reader:
            decode_picture(reader.read(file), PictureRule(size=8, max_pixels=10_000))
    except (UnreadablePictureError, PictureError) as error:
        return UnusablePicture(image, file, str(error))
    raise AssertionError(f"{image} is a picture")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "empty.jpg": b"",
        "cut.jpg": jpeg()[:-300],
        "marked.jpg": jpeg()[:-300] + b"\xff\xd9",  # as if it were whole
        "text.jpg": b"no access",
        "phone.jpg": b"\x00\x00\x00\x18ftypheic" + bytes(40),
        "large.jpg": jpeg(101),
        "a.heic": b"x",
        "0012.jpg": jpeg(),
        "B.jpg": jpeg(),
        "b.JPG": jpeg(),
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "folder.jpg").mkdir()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.jpg", jpeg())
    return tmp_path


@pytest.mark.parametrize(
    ("image", "cause", "shown"),
    [
        ("gone.jpg", causes.MISSING, "gone.jpg"),
        ("a.jpg", causes.OTHER_SUFFIX, "a.jpg: a.heic"),
        ("12.jpg", causes.ZEROS, "12.jpg: 0012.jpg"),
        ("b.jpg", causes.SEVERAL, "b.jpg: B.jpg, b.JPG"),
        ("link.jpg", causes.NOWHERE, "link.jpg: nowhere.jpg"),
        ("https://pacs/a.jpg", causes.ADDRESS, "https://pacs/a.jpg"),
        ("C:\\far\\c.jpg", causes.FOREIGN, "C:\\far\\c.jpg"),
        ("z.zip::b.jpg", causes.NOT_IN_ARCHIVE, "z.zip::b.jpg"),
        ("empty.jpg", causes.EMPTY, "empty.jpg"),
        ("cut.jpg", "the picture's bytes end early; copy or export the whole file again", "cut.jpg: the pic"),
        ("marked.jpg", "the picture's bytes end early; copy or export", "marked.jpg: the pic"),
        ("text.jpg", "no picture, whatever its name says: JPEG, PNG and WebP are read", "text.jpg: 9 bytes"),
        ("phone.jpg", "the picture is HEIC, which is not read; JPEG, PNG and WebP", "phone.jpg"),
        (
            "large.jpg",
            "the picture has more pixels than are accepted",
            "large.jpg: the picture has 101 x 101",
        ),
        ("folder.jpg", "this is a folder, not a picture", "folder.jpg"),
    ],
)
def test_a_cause_is_what_pictures_share(folder: Path, image: str, cause: str, shown: str) -> None:
    ((found, pictures),) = by_cause([unusable(image, folder)]).items()
    assert found.startswith(cause)
    assert pictures[0].startswith(shown)


def test_pictures_of_one_cause_are_one_group_and_the_largest_is_first(folder: Path) -> None:
    found = by_cause([unusable(name, folder) for name in ("empty.jpg", "gone.jpg", "cut.jpg", "far.jpg")])
    assert next(iter(found.items())) == (causes.MISSING, ["gone.jpg", "far.jpg"])
    assert len(found) == 3
    assert counted(found, 1)[0] == {"cause": causes.MISSING, "count": 2, "examples": ["gone.jpg"]}
