"""Pictures in the arrays of a `.npz` file, as MedMNIST publishes them: `a.npz::train_images/17`."""

import io
import threading
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SUFFIX = ".npz"


class ArrayFile:
    """A `.npz` file that threads may share. Each array is read whole, when it is first asked for.

    Raises:
        OSError: the file is missing or cannot be read.
        zipfile.BadZipFile: it is no `.npz` file.
    """

    def __init__(self, path: Path) -> None:
        self._file = zipfile.ZipFile(path)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._reading = threading.Lock()

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and forget its arrays."""
        self._file.close()
        self._arrays.clear()

    def array(self, name: str) -> NDArray[Any]:
        """The array `name`, read when it is first asked for.

        Raises:
            KeyError: there is none of that name.
            ValueError: it cannot be read without unpickling, or is damaged.
        """
        with self._reading:
            if name not in self._arrays:
                with self._file.open(f"{name}.npy") as stream:
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

    def read(self, member: str) -> bytes:
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

    def stamp(self, member: str) -> tuple[int, int]:
        """The size in bytes and the checksum of a picture's array, without reading it.

        Raises:
            KeyError: there is no such array.
        """
        entry = self._file.getinfo(f"{member.rpartition('/')[0]}.npy")
        return entry.file_size, entry.CRC
