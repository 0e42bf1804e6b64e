import zipfile
from pathlib import Path

import pytest

from clients.data import picture_files as files
from clients.data.picture_files import PictureFile, PictureReader, UnreadablePictureError, locate


def test_locates_files_and_members(tmp_path):
    assert locate("a/b.jpg", tmp_path) == PictureFile(tmp_path / "a/b.jpg")
    assert locate("z.zip::a/b.jpg", tmp_path) == PictureFile(tmp_path / "z.zip", "a/b.jpg")
    assert locate("/a/b.jpg", tmp_path) == PictureFile(Path("/a/b.jpg"))


def test_reads_files_and_members(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"file")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("in/b.jpg", b"member")
    with PictureReader() as reader:
        assert reader.read(locate("a.jpg", tmp_path)) == b"file"
        assert reader.read(locate("z.zip::in/b.jpg", tmp_path)) == b"member"


def test_the_stamp_of_a_member_changes_with_its_content_alone(tmp_path):
    def stamp(content: bytes, name: str) -> tuple[int, int]:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("b.jpg", content)
        with PictureReader() as reader:
            return reader.stamp(locate(f"{name}::b.jpg", tmp_path))

    assert stamp(b"one", "1.zip") == stamp(b"one", "2.zip")
    assert stamp(b"one", "3.zip") != stamp(b"two", "4.zip")


def test_what_cannot_be_read_says_why(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.zip").write_text("no zip file")
    (tmp_path / "large.jpg").write_bytes(bytes(6000))
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b.jpg", b"picture" * 50)
    damaged = bytearray((tmp_path / "z.zip").read_bytes())
    damaged[36:40] = b"\xff\xff\xff\xff"
    (tmp_path / "damaged.zip").write_bytes(damaged)
    monkeypatch.setattr(files, "MAX_BYTES", 5000)
    cases = {
        "missing.jpg": "no such file",
        "missing.zip::a.jpg": "no such file",
        "folder": "a folder, not a picture",
        "z.zip::a.jpg": "z.zip holds no such picture",
        "text.zip::a.jpg": "cannot be read",
        "large.jpg": "6000 bytes; at most 5000",
    }
    with PictureReader() as reader:
        for image, why in cases.items():
            with pytest.raises(UnreadablePictureError, match=why):
                reader.read(locate(image, tmp_path))
        with pytest.raises(UnreadablePictureError, match="cannot be read"):
            reader.read(locate("damaged.zip::b.jpg", tmp_path))
