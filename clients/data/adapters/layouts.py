"""Layouts that many data sets have: folders by label, `.npz` files as MedMNIST has them, synthetic pictures.

Pictures sorted into one folder per label: `FOLDER/MEL/a.jpg` has the label MEL. Nothing is known of lesions,
patients and tones, so each picture is taken for a lesion of its own. Where that is not so, import to a
manifest first and fill in its `lesion_id` and `patient_id`.

Synthetic pictures, drawn when they are first asked for: a job runs with no download and no patients.

Any data set laid out like MedMNIST (Yang et al. 2023; CC BY 4.0, DermaMNIST CC BY-NC 4.0): one `.npz`.

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
from typing import ClassVar, Literal

from pydantic import Field

from clients.data.adapters.adapter import Adapter
from clients.data.adapters.published import code_of
from clients.data.errors import AdapterError
from clients.data.manifest import DUPLICATE_GROUP, Manifest, Row
from clients.data.manifest_file import read_manifest
from clients.data.picture_files import PICTURE_SUFFIXES, ZIP_MARK, ArrayFile
from clients.data.synthetic import MANIFEST, TYPICAL, write_synthetic


class ImageFolder(Adapter):
    """One sub-folder per label; no options."""

    name: Literal["image-folder"] = "image-folder"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture, labelled by the first folder on its path."""
        rows = [
            Row(image=path.relative_to(folder).as_posix(), label=path.relative_to(folder).parts[0])
            for path in sorted(folder.glob("*/**/*"))
            if path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")
        ]
        if not rows:
            raise AdapterError(f"{folder} holds no pictures in folders named by label (FOLDER/LABEL/a.jpg)")
        return Manifest.of(rows, folder)


class Synthetic(Adapter):
    """Synthetic skin lesions on six Fitzpatrick types.

    Attributes:
        pictures: how many.
        size: pixels on both sides.
        seed: other seeds make other pictures; it is not the job's seed.
        prefix: of the ids of lesions and patients, which are counted; equal ids in two sources are taken for
            the same lesion or patient. The pictures do not depend on it.
        typical: how typical of its class the least typical lesion is, from 0 to 1.
    """

    name: Literal["synthetic"] = "synthetic"
    makes_pictures: ClassVar[bool] = True
    pictures: int = Field(1200, ge=6)
    size: int = Field(64, ge=32, le=1024)
    seed: int = Field(0, ge=0)
    prefix: str = Field("", exclude=True)
    typical: float = Field(TYPICAL, ge=0, le=1, exclude_if=lambda typical: typical == TYPICAL)

    def manifest(self, folder: Path) -> Manifest:
        """The manifest of `folder`, whose pictures are drawn if it has none."""
        manifest = self._drawn(folder)
        return manifest.keep(
            [
                replace(
                    row,
                    lesion_id=f"{self.prefix}{row.lesion_id}",
                    patient_id=f"{self.prefix}{row.patient_id}",
                )
                for row in manifest.rows
            ]
        )

    def _drawn(self, folder: Path) -> Manifest:
        if not (folder / MANIFEST).exists():
            return write_synthetic(
                folder, pictures=self.pictures, size=self.size, seed=self.seed, typical=self.typical
            )
        manifest = read_manifest(folder / MANIFEST)
        if len(manifest.rows) != self.pictures:
            raise AdapterError(
                f"{folder} holds {len(manifest.rows)} pictures, the job asks for {self.pictures}; "
                f"name an empty folder, or none"
            )
        return manifest


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
