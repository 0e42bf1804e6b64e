"""Any data set laid out like MedMNIST (Yang et al. 2023; CC BY 4.0, DermaMNIST CC BY-NC 4.0): one `.npz`.

The folder holds the file, with the arrays `train_images`, `train_labels`, and the same of `val` and `test`:
pictures as uint8 `(pictures, height, width)`, grey, or `(pictures, height, width, 3)`, and labels
`(pictures, 1)`. Pictures stay in the file: a manifest names the one in place 17 of an array
`pneumonia.npz::train_images/17`. Grey becomes RGB when a picture is decoded. Nothing in the file is
unpickled.

Pictures that are there twice, pixel for pixel, are kept together. Where the file has one in two splits, it
belongs to the one that is held out: its rows in the other have no `split`, and follow.

The file tells numbers for labels, no names: give them as `codes`. It tells no skin tones, lesions or
patients.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import code_of
from clients.data.errors import AdapterError
from clients.data.manifests.manifest import DUPLICATE_GROUP, Manifest, Row
from clients.data.pictures.files import ZIP_MARK, ArrayFile

SPLITS = {"train": "train", "val": "validation", "test": "test"}


class MedMnist(Adapter):
    """A `.npz` file of pictures and labels.

    Attributes:
        file: its name, where the folder holds several.
        codes: from the file's numbers to codes (`{"0": "normal"}`); without it the numbers are the codes.
        split: `published` makes the file's splits the split; `job` leaves it to the job. Either way they are
            kept as the column `published_split`.
    """

    name: Literal["medmnist"] = "medmnist"
    file: str | None = None
    codes: Mapping[str, str] | None = None
    split: Literal["job", "published"] = "published"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture: training, then validation, then test."""
        path = self._file(folder)
        rows: list[Row] = []
        contents: list[bytes] = []
        try:
            with ArrayFile(path) as arrays:
                for part, split in SPLITS.items():
                    pictures = arrays.pictures(f"{part}_images")
                    rows += self._rows(path, arrays, part, split)
                    contents += [hashlib.sha256(picture.tobytes()).digest() for picture in pictures]
        except KeyError as error:
            raise AdapterError(f"{path} is not laid out like MedMNIST: {error.args[0]}") from error
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise AdapterError(f"{path} cannot be read: {error}") from error
        return Manifest.of(_tied(rows, contents), folder)

    def _rows(self, path: Path, arrays: ArrayFile, part: str, split: str) -> Iterator[Row]:
        images = f"{part}_images"
        count = len(arrays.pictures(images))
        for number, label in enumerate(_labels(path, f"{part}_labels", arrays, count)):
            member = f"{images}/{number}"
            yield Row(
                image=f"{path.name}{ZIP_MARK}{member}",
                label=label if self.codes is None else code_of(member, label, self.codes),
                split=split if self.split == "published" else "",
                extra={"published_split": split},
            )

    def _file(self, folder: Path) -> Path:
        if self.file is not None:
            return folder / self.file
        files = sorted(folder.glob("*.npz"))
        if len(files) != 1:
            names = ", ".join(path.name for path in files) or "none"
            raise AdapterError(f"{folder} holds {len(files)} .npz files ({names}); name one as `file`")
        return files[0]


def _labels(path: Path, name: str, arrays: ArrayFile, count: int) -> list[str]:
    """The labels as text, one a picture."""
    labels = arrays.array(name)
    if labels.dtype.kind not in "iu" or labels.shape not in {(count,), (count, 1)}:
        raise AdapterError(
            f"{path}: {name} has the shape {labels.shape} of {labels.dtype}; needed is one whole number for "
            f"each of {count} pictures (where a picture has several labels there are no classes)"
        )
    return [str(label) for label in labels.ravel().tolist()]


def _tied(rows: Sequence[Row], contents: Sequence[bytes]) -> Iterator[Row]:
    """The rows, duplicates tied into one group, in the split that is held out the most."""
    same: dict[bytes, list[Row]] = {}
    for row, content in zip(rows, contents, strict=True):
        same.setdefault(content, []).append(row)
    for row, content in zip(rows, contents, strict=True):
        twins = same[content]
        group = twins[0].image.partition(ZIP_MARK)[2] if len(twins) > 1 else ""
        split = row.split if row.split == twins[-1].split else ""  # rows are in the order of SPLITS
        yield replace(row, split=split, extra={**row.extra, DUPLICATE_GROUP: group})
