"""The cache of decoded pictures: all pictures of a job as one memory-mapped array.

A cache is a folder named by the digest of the picture rule and of every picture's place, size and time of
change (inside a zip file: its checksum), so that a changed picture, another size or another list is another
cache. It is filled under a temporary name and renamed when it is whole; builders that run at the same time
do not disturb one another. Caches hold pixels: they stay at the hospital, and may be deleted at any time.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.output import build_folder_once, progress, sync_file
from clients.data.pictures.files import PictureFile, PictureReader, UnreadablePictureError
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture

_IMAGES, _CONTENTS, _BROKEN = "images.npy", "contents.npy", "broken.json"
_LAYOUT = 1  # of the folder; part of its digest
_CHUNK = 64  # pictures a thread decodes before the progress moves


@dataclass(frozen=True)
class DecodedPictures:
    """A cache of decoded pictures.

    Attributes:
        path: the array file, uint8 `(pictures, size, size, 3)`; broken pictures are black.
        contents: SHA-256 of each picture's bytes, `(pictures, 32)` uint8; zeros where there are none.
        broken: why a picture cannot be used, by its number.
    """

    path: Path
    contents: NDArray[np.uint8]
    broken: dict[int, str]


def cache_folder() -> Path:
    """The folder of caches between runs: `DERMFED_CACHE`, or the user's cache directory."""
    return Path(os.environ.get("DERMFED_CACHE") or platformdirs.user_cache_dir("dermfed"))


def open_images(path: Path) -> NDArray[np.uint8]:
    """The array of a cache, mapped into memory and read only, `(pictures, size, size, 3)`."""
    images: NDArray[np.uint8] = np.load(path, mmap_mode="r", allow_pickle=False)
    return images


def decode_once(
    pictures: Sequence[PictureFile], rule: PictureRule, cache: Path, *, threads: int | None = None
) -> DecodedPictures:
    """Decode `pictures` by `rule`, or find them in the cache.

    Args:
        pictures: the pictures, in the order of the array.
        rule: how a picture becomes pixels.
        cache: the folder that holds all caches.
        threads: how many decode at once; by default one per processor, at most eight.

    Raises:
        ClientDataError: the cache cannot be written (no space, no rights) or read.
    """
    try:
        with PictureReader() as reader:
            folder = cache / f"pictures-{_digest(pictures, rule, reader)}"
            if not folder.is_dir():
                with build_folder_once(folder) as building:
                    _fill(building, pictures, rule, reader, threads or min(8, os.cpu_count() or 1))
    except OSError as error:
        raise ClientDataError(
            f"cannot write decoded pictures to {cache}: {error}; name another cache folder"
        ) from error
    return _read(folder, len(pictures))


def _digest(pictures: Sequence[PictureFile], rule: PictureRule, reader: PictureReader) -> str:
    digest = hashlib.sha256(f"{_LAYOUT} {rule.model_dump_json()}".encode())
    for picture in pictures:
        try:
            stamp = reader.stamp(picture)
        except UnreadablePictureError:
            stamp = (-1, -1)
        digest.update(json.dumps([str(picture), *stamp]).encode())
    return digest.hexdigest()[:32]


def _fill(
    folder: Path, pictures: Sequence[PictureFile], rule: PictureRule, reader: PictureReader, threads: int
) -> None:
    """Decode all pictures into `folder`, each into its own place, so that threads never meet."""
    images = np.lib.format.open_memmap(
        folder / _IMAGES, mode="w+", dtype=np.uint8, shape=(len(pictures), rule.size, rule.size, 3)
    )
    contents = np.zeros((len(pictures), 32), dtype=np.uint8)

    def decode(numbers: range) -> dict[int, str]:
        broken = {}
        for number in numbers:
            try:
                content = reader.read(pictures[number])
                contents[number] = np.frombuffer(hashlib.sha256(content).digest(), dtype=np.uint8)
                images[number] = decode_picture(content, rule)
            except (UnreadablePictureError, PictureError) as error:
                broken[number] = str(error)
        return broken

    chunks = [range(start, min(start + _CHUNK, len(pictures))) for start in range(0, len(pictures), _CHUNK)]
    broken: dict[int, str] = {}
    with progress("decoding pictures", len(pictures)) as advance, ThreadPoolExecutor(threads) as pool:
        for numbers, found in zip(chunks, pool.map(decode, chunks), strict=True):
            broken |= found
            advance(len(numbers))
    images.flush()
    np.save(folder / _CONTENTS, contents, allow_pickle=False)
    (folder / _BROKEN).write_text(json.dumps({str(number): why for number, why in broken.items()}))
    for name in (_IMAGES, _CONTENTS, _BROKEN):
        sync_file(folder / name)


def _read(folder: Path, count: int) -> DecodedPictures:
    try:
        contents: NDArray[np.uint8] = np.load(folder / _CONTENTS, allow_pickle=False)
        broken = {int(number): why for number, why in json.loads((folder / _BROKEN).read_text()).items()}
        decoded = len(open_images(folder / _IMAGES))
    except (OSError, ValueError) as error:
        raise ClientDataError(
            f"the cache {folder} is damaged ({error}); delete it and start again"
        ) from error
    if decoded != count or len(contents) != count:
        raise ClientDataError(
            f"the cache {folder} holds {decoded} pictures instead of {count}; delete it and start again"
        )
    return DecodedPictures(folder / _IMAGES, contents, broken)
