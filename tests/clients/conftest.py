import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest


def picture(seed: int, size: int = 12) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


@pytest.fixture
def write_pictures(tmp_path):
    """Write a manifest in `tmp_path` with a picture of its own for every row; gives the manifest's path."""

    def write(rows: list[Row]) -> Path:
        for number, row in enumerate(rows):
            path = tmp_path / row.image
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(number).save(path)
        write_manifest(Manifest.of(rows, tmp_path), tmp_path / "manifest.csv")
        return tmp_path / "manifest.csv"

    return write


@pytest.fixture
def real_data():
    folder = os.environ.get("DERMFED_DATA")
    if not folder:
        pytest.skip("DERMFED_DATA does not say where the real pictures are")
    return Path(folder)
