"""The manifest: one row per picture, and what its hospital knows about it.

A CSV file in UTF-8 with the columns `COLUMNS`; only `image` must be there and filled. Any other column
(`clinic`, `age`, `image_type`, ...) is kept, and a job may filter, partition or report by it. An `image` is a
path relative to the manifest's folder, an absolute path, or a picture inside a zip file,
`images.zip::images/a.jpg`.

Linked pictures, which must stay together: of one lesion, of one patient, or duplicates.
"""

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import UnknownColumnError
from registry.bundle.text import nearest

COLUMNS = (
    "image",
    "label",
    "skin_tone",
    "skin_tone_scale",
    "lesion_id",
    "patient_id",
    "site",
    "split",
)

DUPLICATE_GROUP = "duplicate_group"  # an extra column: rows that share a value are kept together
IMAGE_KIND = "image_kind"  # an extra column: what a picture shows, see `registry.bundle.cases`
HOSPITALS = (  # names of extra columns, in small letters, that say where a picture comes from
    *("clinic", "hospital", "centre", "center", "institution", "institute", "department", "practice"),
    "dataset",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One picture. An empty string is "not known".

    Attributes:
        image: where the picture is, as `clients.data.picture_files` reads it.
        label: the diagnosis' code.
        skin_tone: a value of `skin_tone_scale`, spelt as `clients.data.tones` spells it.
        skin_tone_scale: the scale on which the tone was declared.
        lesion_id: pictures of one lesion share it.
        patient_id: pictures of one patient share it.
        site: where on the body.
        split: train, validation, calibration or test where it is given; else the job's rule decides.
        extra: every other column.
    """

    image: str
    label: str = ""
    skin_tone: str = ""
    skin_tone_scale: str = ""
    lesion_id: str = ""
    patient_id: str = ""
    site: str = ""
    split: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    def value(self, column: str) -> str:
        """The cell in `column`, one of `COLUMNS` or any other; empty where there is none."""
        if column in COLUMNS:
            text: str = getattr(self, column)
            return text
        return self.extra.get(column, "")


@dataclass(frozen=True)
class Manifest:
    """The pictures of one source.

    Attributes:
        rows: one per picture.
        folder: what relative image paths start from.
        extra_columns: the columns beyond `COLUMNS`, in the file's order.
        notes: what reading it took for granted, matched or left out, for the owner of the pictures.
    """

    rows: tuple[Row, ...]
    folder: Path
    extra_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Row], folder: Path, notes: Iterable[str] = ()) -> "Manifest":
        """A manifest whose extra columns are those that the rows have, in order of appearance."""
        kept = tuple(rows)
        extra = tuple(dict.fromkeys(name for row in kept for name in row.extra))
        return cls(kept, folder, extra, tuple(notes))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the known ones first."""
        return COLUMNS + self.extra_columns

    def keep(self, rows: Sequence[Row]) -> "Manifest":
        """The same manifest with other rows."""
        return Manifest(tuple(rows), self.folder, self.extra_columns, self.notes)

    def values(self, column: str) -> list[str]:
        """The cells of one column.

        Raises:
            UnknownColumnError: the manifest has no such column.
        """
        self.require(column)
        return [row.value(column) for row in self.rows]

    def require(self, column: str) -> None:
        """Refuse a column that the manifest does not have.

        Raises:
            UnknownColumnError: names the nearest columns.
        """
        if column not in self.columns:
            known = nearest(column, list(self.columns))
            raise UnknownColumnError(f"the manifest in {self.folder} has no column {column!r}; {known}")


def components(keys: Sequence[Iterable[Hashable]]) -> NDArray[np.int64]:
    """The connected component of each row, `(rows,)`, where rows that share a key are connected.

    Components are numbered in order of their first row.
    """
    parents = list(range(len(keys)))

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    holder: dict[Hashable, int] = {}
    for row, shared in enumerate(keys):
        for key in shared:
            first, second = sorted((root(holder.setdefault(key, row)), root(row)))
            parents[second] = first
    number: dict[int, int] = {}
    return np.array(
        [number.setdefault(root(row), len(number)) for row in range(len(keys))], dtype=np.int64
    ).reshape(-1)


def linkage_keys(row: Row) -> list[tuple[str, str]]:
    """The keys that link `row` to the pictures it must stay with, by kind and value."""
    named = (
        ("lesion", row.lesion_id),
        ("patient", row.patient_id),
        ("duplicate", row.extra.get(DUPLICATE_GROUP, "")),
    )
    return [(kind, value) for kind, value in named if value]


def name_groups(lists: Sequence[Sequence[str]]) -> dict[str, str]:
    """The group of everything that `lists` name, called after its first; lists that share a name are one."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(number, names[0])
        for names, number in zip(lists, components(lists).tolist(), strict=True)
        for name in names
    }


def number_lesions(rows: Sequence[Row]) -> NDArray[np.int64]:
    """A number per row, `(rows,)`, equal for pictures of one lesion; a picture without one is its own."""
    numbers: dict[tuple[str, str], int] = {}
    keys = (("lesion", row.lesion_id) if row.lesion_id else ("row", str(i)) for i, row in enumerate(rows))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64).reshape(-1)


def name_pictures(rows: Sequence[Row], contents: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Digests by which a picture and its patient are known again in another run, `(rows, 2)`.

    Linked pictures may be of one patient and count as such: a lesion has one, and duplicates show one. Where
    no patient is known, the lesion counts as one, and so does a picture without a lesion.

    Args:
        rows: of the manifest.
        contents: SHA-256 of each picture's bytes, `(rows, 32)`.
    """
    keys = [linkage_keys(row) for row in rows]
    groups = components(keys).tolist()
    owners: dict[int, tuple[bool, str, str]] = {}
    for group, linked, content in zip(groups, keys, contents, strict=True):
        known = [(kind != "patient", kind, value) for kind, value in linked]
        owners[group] = min([*known, owners.get(group, (True, "picture", content.tobytes().hex()))])
    names = np.empty((len(rows), 2), dtype=np.int64)
    for number, (group, content) in enumerate(zip(groups, contents, strict=True)):
        owner = hashlib.sha256("\n".join(owners[group][1:]).encode()).digest()
        digests = content.tobytes(), owner
        names[number] = [int.from_bytes(digest[:8], "big", signed=True) for digest in digests]
    return names
