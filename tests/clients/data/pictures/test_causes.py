import io
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from clients.data import picture_names as causes
from clients.data.picture_files import PictureReader, UnreadablePictureError, locate
from clients.data.picture_names import UnusablePicture, by_cause
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
def folder(tmp_path):
    for name, content in {
        "marked.jpg": jpeg()[:-300] + b"\xff\xd9",  # as if it were whole
        "large.jpg": jpeg(101),
        "B.jpg": jpeg(),
        "b.JPG": jpeg(),
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jpg").mkdir()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.jpg", jpeg())
    return tmp_path


@pytest.mark.parametrize(
    ("image", "cause", "shown"),
    [
        ("b.jpg", causes.SEVERAL, "b.jpg: B.jpg, b.JPG"),
        ("https://pacs/a.jpg", causes.ADDRESS, "https://pacs/a.jpg"),
        ("C:\\far\\c.jpg", causes.FOREIGN, "C:\\far\\c.jpg"),
        ("z.zip::b.jpg", causes.NOT_IN_ARCHIVE, "z.zip::b.jpg"),
        ("marked.jpg", "the picture's bytes end early; copy or export", "marked.jpg: the pic"),
        (
            "large.jpg",
            "the picture has more pixels than are accepted",
            "large.jpg: the picture has 101 x 101",
        ),
        ("folder.jpg", "this is a folder, not a picture", "folder.jpg"),
    ],
)
def test_a_cause_is_what_pictures_share(folder, image, cause, shown):
    ((found, pictures),) = by_cause([unusable(image, folder)]).items()
    assert found.startswith(cause)
    assert pictures[0].startswith(shown)


def test_the_cause_of_most_pictures_is_first(folder):
    found = by_cause([unusable(name, folder) for name in ("marked.jpg", "gone.jpg", "far.jpg")])
    assert next(iter(found.items())) == (causes.MISSING, ["gone.jpg", "far.jpg"])
