"""Real pictures for a mutator, from the folder that DERMFED_DATA names."""

import io
import os
import zipfile
from pathlib import Path

from PIL import Image

from tests.serving.hostile.piece import encoded

SOURCES = ("ham10000/images_200x150.zip", "milk10k/images_200x150.zip")


def real_pictures(count: int) -> list[bytes]:
    """So many pictures, from all over each source: as they are, progressive, and as PNG and WebP."""
    found: list[bytes] = []
    sources = [path for name in SOURCES if (path := Path(os.environ["DERMFED_DATA"]) / name).is_file()]
    for path in sources:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.lower().endswith((".jpg", ".jpeg")))
            found += [archive.read(name) for name in names[:: max(1, len(names) * len(sources) // count)]]
    return [_in_turn(number, content) for number, content in enumerate(found[:count])]


def _in_turn(number: int, content: bytes) -> bytes:
    forms = (("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {}), ("WEBP", {"lossless": True}))
    if number % 3 == 0:
        return content
    form, options = forms[number % len(forms)]
    return encoded(Image.open(io.BytesIO(content)), form, **options)
