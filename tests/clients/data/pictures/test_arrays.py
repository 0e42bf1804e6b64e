import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from clients.data.picture_files import PictureReader, UnreadablePictureError, locate
from registry.bundle.pictures.rule import PictureRule, decode_picture

RULE = PictureRule(size=8, draft=False)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_threads_share_a_reader(tmp_path):
    colours = drawn(40, 8, 8, 3)
    np.savez(tmp_path / "a.npz", images=colours)
    with PictureReader() as reader, ThreadPoolExecutor(8) as pool:
        names = [locate(f"a.npz::images/{number}", tmp_path) for number in range(40)]
        decoded = [decode_picture(content, RULE) for content in pool.map(reader.read, names)]
    assert (np.stack(decoded) == colours).all()


def test_the_stamp_changes_with_the_array_alone(tmp_path):
    def stamp(array: np.ndarray, name: str) -> tuple[int, int]:
        np.savez(tmp_path / name, images=array)
        with PictureReader() as reader:
            return reader.stamp(locate(f"{name}::images/0", tmp_path))

    assert stamp(drawn(2, 8, 8), "1.npz") == stamp(drawn(2, 8, 8), "2.npz")
    assert stamp(drawn(2, 8, 8), "3.npz") != stamp(drawn(2, 8, 8, seed=1), "4.npz")


def test_what_cannot_be_read_says_why(tmp_path):
    np.savez(
        tmp_path / "a.npz",
        images=drawn(2, 8, 8),
        floats=np.zeros((2, 8, 8)),
        volumes=drawn(2, 8, 8, 8),
        empty=np.zeros((2, 0, 8), dtype=np.uint8),
        pickled=np.array([{"a": 1}], dtype=object),
    )
    (tmp_path / "text.npz").write_text("no arrays")
    with zipfile.ZipFile(tmp_path / "broken.npz", "w") as archive:
        archive.writestr("images.npy", b"no array")
    cases = {
        "a.npz::images/2": "a.npz holds no such picture",
        "a.npz::images/-1": "a.npz holds no such picture",
        "a.npz::images": "a.npz holds no such picture",
        "a.npz::others/0": "a.npz holds no such picture",
        "a.npz::floats/0": r"floats has the shape \(2, 8, 8\) of float64; pictures are uint8",
        "a.npz::volumes/0": r"volumes has the shape \(2, 8, 8, 8\)",
        "a.npz::empty/0": r"empty has the shape \(2, 0, 8\)",
        "a.npz::pickled/0": "cannot be read: Object arrays cannot be loaded",
        "text.npz::images/0": "cannot be read",
        "broken.npz::images/0": "cannot be read",
        "missing.npz::images/0": "no such file",
    }
    with PictureReader() as reader:
        for image, why in cases.items():
            with pytest.raises(UnreadablePictureError, match=why):
                reader.read(locate(image, tmp_path))
