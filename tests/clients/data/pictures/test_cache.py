import io
import json
import os
import struct
import threading
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clients.data import picture_files as cache_module
from clients.data.errors import ClientDataError
from clients.data.picture_files import PictureFile, decode_once, open_images
from registry.bundle.pictures.rule import PictureRule

RULE = PictureRule(size=16)


def png(seed: int, size: int = 16) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def huge_png() -> bytes:
    """A PNG file of a few bytes that claims to be 30000 x 30000."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.fixture
def pictures(tmp_path):
    files = []
    for number in range(3):
        path = tmp_path / "in" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(number))
        files.append(PictureFile(path))
    return files


def test_pictures_of_the_right_size_come_out_as_they_are(tmp_path, pictures):
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("x/3.png", png(3))
    files = [*pictures, PictureFile(tmp_path / "z.zip", "x/3.png")]
    decoded = decode_once(files, RULE, tmp_path / "cache")
    images = open_images(decoded.path)
    for number in range(4):
        expected = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        assert (images[number] == expected).all()
    assert isinstance(images, np.memmap)
    assert not images.flags.writeable
    assert decoded.broken == {}


def test_the_second_time_nothing_is_decoded(tmp_path, pictures, monkeypatch):
    first = decode_once(pictures, RULE, tmp_path / "cache")
    monkeypatch.setattr(cache_module, "decode_picture", None)
    assert decode_once(pictures, RULE, tmp_path / "cache").path == first.path


def test_another_rule_list_or_file_is_another_cache(tmp_path, pictures):
    paths = {
        decode_once(pictures, RULE, tmp_path / "cache").path,
        decode_once(pictures, PictureRule(size=8), tmp_path / "cache").path,
        decode_once(pictures[::-1], RULE, tmp_path / "cache").path,
    }
    os.utime(pictures[0].path, ns=(1, 1))
    paths.add(decode_once(pictures, RULE, tmp_path / "cache").path)
    assert len(paths) == 4


def test_broken_pictures_are_named_and_the_others_are_there(tmp_path, pictures):
    contents = {
        "text.jpg": b"this is no picture",
        "cut.png": png(0, 64)[:-300],
        "huge.png": huge_png(),
        "empty.jpg": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    broken = [PictureFile(tmp_path / name) for name in (*contents, "missing.jpg")]
    decoded = decode_once([*broken, *pictures], RULE, tmp_path / "cache", threads=2)
    assert sorted(decoded.broken) == [0, 1, 2, 3, 4]
    for number, why in enumerate(
        ("no picture", "whole file again", "30000 x 30000", "no bytes", "no such file")
    ):
        assert why in decoded.broken[number]
    assert not open_images(decoded.path)[:5].any()
    assert open_images(decoded.path)[5:].any(axis=(1, 2, 3)).all()


def test_builders_at_the_same_time_agree_and_leave_one_cache(tmp_path, pictures, monkeypatch):
    both = threading.Barrier(2)
    decode = cache_module.decode_picture

    def wait_then_decode(content: bytes, rule: PictureRule) -> np.ndarray:
        if content == png(0):
            both.wait(60)  # neither goes on before both have begun
        return decode(content, rule)

    monkeypatch.setattr(cache_module, "decode_picture", wait_then_decode)
    found: list[Path] = []

    def build() -> None:
        found.append(decode_once(pictures, RULE, tmp_path / "cache", threads=1).path)

    builders = [threading.Thread(target=build) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(120)
    assert found[0] == found[1]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [found[0].parent.name]


def test_a_builder_that_fails_leaves_nothing(tmp_path, pictures, monkeypatch):
    def no_space(content: bytes, rule: PictureRule) -> np.ndarray:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "decode_picture", no_space)
    with pytest.raises(ClientDataError, match="No space left on device; name another cache folder"):
        decode_once(pictures, RULE, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_damaged_cache_says_what_to_do(tmp_path, pictures):
    path = decode_once(pictures, RULE, tmp_path / "cache").path
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ClientDataError, match=r"damaged .*; delete it and start again"):
        decode_once(pictures, RULE, tmp_path / "cache")


def test_contents_are_sha256_of_the_files(tmp_path, pictures):
    import hashlib

    decoded = decode_once(pictures, RULE, tmp_path / "cache")
    for file, digest in zip(pictures, decoded.contents, strict=True):
        assert bytes(digest) == hashlib.sha256(file.path.read_bytes()).digest()
    assert json.loads((decoded.path.parent / "broken.json").read_text()) == {}
