"""Locating and reading picture files, and the cache of decoded pictures.

A picture is a file, a member of a zip file (`images.zip::a.jpg`) or a place in an array of a `.npz` file, as
MedMNIST publishes them (`a.npz::train_images/17`). Decoded, those of a job are one memory-mapped array.

A cache is a folder named by the digest of the picture rule and of every picture's place, size and time of
change (inside a zip file: its checksum), so that a changed picture, another size or another list is another
cache. It is filled under a temporary name and renamed when it is whole; builders that run at the same time
do not disturb one another. Caches hold pixels: they stay at the hospital, and may be deleted at any time.
"""

import hashlib
import io
import json
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import platformdirs
from numpy.typing import NDArray
from PIL import Image

from clients.data.errors import ClientDataError
from clients.data.output import build_folder_once, progress, sync_file
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".heic", ".avif"})
"""Of pictures that are found by name alone, as published tables name them."""

READ_SUFFIXES = PICTURE_SUFFIXES | {".jpe", ".jfif", ".heif", ".hif", ".dcm"}
"""Of pictures that may be read: one of these may stand for another."""

SUFFIXES = READ_SUFFIXES | {
    *(
        ".tif",
        ".tiff",
        ".bmp",
        ".gif",
        ".pdf",
        ".mpo",
        ".jp2",
        ".jxl",
        ".psd",
    ),
    *(".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"),
}
"""Of all that people take for pictures."""

Item = TypeVar("Item")
Made = TypeVar("Made")


def in_threads(what: str, make: Callable[[Item], Made], items: Sequence[Item]) -> Iterator[Made]:
    """What `make` returns for each item, in order, from a thread per processor and at most eight.

    Progress is shown under the name `what`.
    """
    with progress(what, len(items)) as advance, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for made in pool.map(make, items):
            yield made
            advance(1)


SUFFIX = ".npz"


class ArrayFile(zipfile.ZipFile):
    """A `.npz` file that threads may share. Each array is read whole, when it is first asked for.

    Raises:
        OSError: the file is missing or cannot be read.
        zipfile.BadZipFile: it is no `.npz` file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._reading = threading.Lock()

    def array(self, name: str) -> NDArray[Any]:
        """The array `name`, read when it is first asked for.

        Raises:
            KeyError: there is none of that name.
            ValueError: it cannot be read without unpickling, or is damaged.
        """
        with self._reading:
            if name not in self._arrays:
                with self.open(f"{name}.npy") as stream:
                    self._arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
            return self._arrays[name]

    def pictures(self, name: str) -> NDArray[np.uint8]:
        """The array `name`, uint8 `(pictures, height, width)` or `(pictures, height, width, 3)`.

        Raises:
            KeyError: there is none of that name.
            ValueError: it cannot be read, or is no array of pictures.
        """
        array = self.array(name)
        shaped = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)
        if array.dtype != np.uint8 or not shaped or 0 in array.shape[1:]:
            raise ValueError(
                f"{name} has the shape {array.shape} of {array.dtype}; pictures are uint8 of the shape "
                f"(pictures, height, width), or that and 3"
            )
        return array

    def picture(self, member: str) -> bytes:
        """One picture (`train_images/17`), as a PNG file.

        Raises:
            KeyError: there is no such picture.
            ValueError: the array cannot be read, or is no array of pictures.
        """
        name, _, place = member.rpartition("/")
        array = self.pictures(name)
        if not place.isdecimal() or int(place) >= len(array):
            raise KeyError(member)
        content = io.BytesIO()
        Image.fromarray(array[int(place)]).save(content, format="PNG", compress_level=0)
        return content.getvalue()


ZIP_MARK = "::"
MAX_BYTES = 256 * 1024 * 1024  # bytes; no picture of skin is larger, and a mistaken path may be anything


@dataclass(frozen=True)
class PictureFile:
    """The location of one picture.

    Attributes:
        path: the picture's file, or the zip or `.npz` file that holds it.
        member: the name inside that file, or in a `.npz` file array and place (`train_images/17`); empty for
            a file of its own.
    """

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return f"{self.path}{ZIP_MARK}{self.member}" if self.member else str(self.path)


class UnreadablePictureError(Exception):
    """A picture's bytes cannot be read; its text is the reason."""


def locate(image: str, folder: Path) -> PictureFile:
    """The location that a manifest's `image` names; a relative path starts from `folder`."""
    name, _, member = image.partition(ZIP_MARK)
    return PictureFile((folder / name).absolute(), member)


def relocate(image: str, folder: Path, target: Path) -> str:
    """The same location as `image`, relative to `target` instead of `folder`."""
    name, mark, member = image.partition(ZIP_MARK)
    if Path(name).is_absolute():
        return image
    path = Path(relpath((folder / name).absolute(), target.absolute())).as_posix()
    return f"{path}{mark}{member}"


class PictureReader:
    """Reads many pictures, opening each zip and `.npz` file once; threads may share one."""

    def __init__(self) -> None:
        self._archives: dict[Path, zipfile.ZipFile] = {}
        self._opening = threading.Lock()

    def __enter__(self) -> "PictureReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for archive in self._archives.values():
            archive.close()

    def read(self, picture: PictureFile) -> bytes:
        """The bytes of `picture`.

        Raises:
            UnreadablePictureError: it is missing, too large, or cannot be read.
        """
        with _explained(picture):
            if not picture.member:
                _refuse_large(picture.path.stat().st_size)
                return picture.path.read_bytes()
            archive = self._archive(picture.path)
            if isinstance(archive, ArrayFile):
                return archive.picture(picture.member)
            member = archive.getinfo(picture.member)
            _refuse_large(member.file_size)
            return archive.read(member)

    def stamp(self, picture: PictureFile) -> tuple[int, int]:
        """Two numbers that change when the picture does, without reading it.

        Size in bytes and time of change in nanoseconds; inside a zip file, size and checksum; inside a `.npz`
        file, size and checksum of the array.

        Raises:
            UnreadablePictureError: it is missing, or cannot be read.
        """
        with _explained(picture):
            if not picture.member:
                status = picture.path.stat()
                return status.st_size, status.st_mtime_ns
            archive = self._archive(picture.path)
            arrays = isinstance(archive, ArrayFile)
            name = f"{picture.member.rpartition('/')[0]}.npy" if arrays else picture.member
            member = archive.getinfo(name)
            return member.file_size, member.CRC

    def _archive(self, path: Path) -> zipfile.ZipFile:
        with self._opening:
            if path not in self._archives:
                kind = ArrayFile if path.suffix.lower() == SUFFIX else zipfile.ZipFile
                self._archives[path] = kind(path)
            return self._archives[path]


@contextmanager
def _explained(picture: PictureFile) -> Iterator[None]:
    """Turn errors of reading a picture into their reason."""
    try:
        yield
    except FileNotFoundError as error:
        raise UnreadablePictureError("there is no such file") from error
    except IsADirectoryError as error:
        raise UnreadablePictureError("this is a folder, not a picture") from error
    except KeyError as error:
        raise UnreadablePictureError(f"{picture.path.name} holds no such picture") from error
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        NotImplementedError,
        EOFError,
        ValueError,
    ) as error:
        raise UnreadablePictureError(f"cannot be read: {error}") from error


def _refuse_large(size: int) -> None:
    if size > MAX_BYTES:
        raise UnreadablePictureError(f"its file has {size} bytes; at most {MAX_BYTES} are read")


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
