"""Linked pictures, which must stay together: of one lesion, of one patient, or duplicates."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from clients.data.manifests.manifest import DUPLICATE_GROUP, Row


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
    no patient is known the lesion stands for one, and a picture without a lesion for its own.

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
