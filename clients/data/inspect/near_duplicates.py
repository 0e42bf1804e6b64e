"""Pictures that are the same under two names: whom they leak between, and keeping them together.

The same bytes, and near-duplicates (`clients.data.pictures.near_duplicates`): in a manifest's rows, for
`dermfed-data check` and `dermfed-data link`, and in a prepared data set, across its splits and clients.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clients.data.manifests.groups import components
from clients.data.manifests.manifest import DUPLICATE_GROUP, Manifest, Row
from clients.data.partition.assign import name_of
from clients.data.pictures.fingerprints import Fingerprints, fingerprint, require_hashing
from clients.data.pictures.near_duplicates import NearDuplicate, find_near_duplicates
from clients.data.prepared import PreparedDataset
from clients.data.progress import progress
from training.data.dataset import SPLITS


@dataclass(frozen=True)
class SamePictures:
    """Which rows of a manifest show the same picture.

    Attributes:
        identical: rows whose files have the same bytes, two or more in each tuple.
        near: near-duplicates among the others, by row; of files with the same bytes only the first is in it.
    """

    identical: tuple[tuple[int, ...], ...]
    near: tuple[NearDuplicate, ...]


def same_pictures(
    digests: Sequence[str], fingerprints: Mapping[int, Fingerprints] | None = None
) -> SamePictures:
    """Find rows that show the same picture.

    Args:
        digests: of each row's bytes; empty where there are none.
        fingerprints: of the rows whose pictures could be decoded; without any only bytes are compared.
    """
    holders: dict[str, list[int]] = {}
    for row, digest in enumerate(digests):
        if digest:
            holders.setdefault(digest, []).append(row)
    firsts = {rows[0] for rows in holders.values()}
    looked_at = [row for row in sorted(fingerprints or {}) if row in firsts]
    near = find_near_duplicates(Fingerprints.joined([(fingerprints or {})[row] for row in looked_at]))
    return SamePictures(
        tuple(tuple(rows) for rows in holders.values() if len(rows) > 1),
        tuple(replace(pair, first=looked_at[pair.first], second=looked_at[pair.second]) for pair in near),
    )


def unlinked(
    rows: Sequence[Row], component_ids: NDArray[np.int64], near: Sequence[NearDuplicate]
) -> list[str]:
    """A line for each pair of near-duplicates that nothing keeps together.

    Those that the manifest puts on two sides of a split come first, then the most alike.
    """

    def parted(pair: NearDuplicate) -> bool:
        return len({rows[pair.first].split, rows[pair.second].split} - {""}) > 1

    pairs = [pair for pair in near if component_ids[pair.first] != component_ids[pair.second]]
    return [
        f"{_said(rows[pair.first])} and {_said(rows[pair.second])}: likeness {pair.likeness:.2f}"
        + (", on two sides of a split" if parted(pair) else "")
        for pair in sorted(pairs, key=lambda pair: (not parted(pair), -pair.likeness, pair))
    ]


def contradictions(rows: Sequence[Row], same: SamePictures) -> list[str]:
    """A line for each picture that has two diagnoses: which rows, and what each says."""
    lines = []
    for group in same.identical:
        by_label = {rows[row].label: rows[row] for row in reversed(group) if rows[row].label}
        if len(by_label) > 1:
            lines.append("the same picture has " + _diagnoses(list(reversed(by_label.values()))))
    for pair in same.near:
        both = [rows[pair.first], rows[pair.second]]
        if all(row.label for row in both) and both[0].label != both[1].label:
            lines.append(f"near-duplicates (likeness {pair.likeness:.2f}) have {_diagnoses(both)}")
    return lines


def lesions_of_two_patients(rows: Sequence[Row]) -> list[str]:
    """A line for each lesion that is given to several patients, who therefore count as one."""
    patients: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.lesion_id and row.patient_id:
            patients.setdefault(row.lesion_id, {}).setdefault(row.patient_id, row)
    return [
        f"lesion {lesion} is at {len(by_patient)} patients: "
        + ", ".join(f"{patient} ({row.image})" for patient, row in by_patient.items())
        + "; give it one, or each patient's lesions names of their own"
        for lesion, by_patient in patients.items()
        if len(by_patient) > 1
    ]


def link(manifest: Manifest, same: SamePictures) -> Manifest:
    """The manifest with its `duplicate_group` filled in: pictures that are the same share a value.

    Groups that are there keep their name, the first one's where several become one; a new one is called after
    its first picture. Likeness is handed on: where a is like b and b like c, all three are one group.
    """
    rows = manifest.rows
    keys: list[list[tuple[str, object]]] = [
        [("group", row.extra[DUPLICATE_GROUP])] if row.extra.get(DUPLICATE_GROUP) else [] for row in rows
    ]
    pairs = [*same.identical, *((pair.first, pair.second) for pair in same.near)]
    for number, group in enumerate(pairs):
        for place in group:
            keys[place].append(("same", number))
    names: dict[int, str] = {}
    numbers = components(keys).tolist()
    for row, key, number in zip(rows, keys, numbers, strict=True):
        if key and key[0][0] == "group":
            names.setdefault(number, row.extra[DUPLICATE_GROUP])
    for row, key, number in zip(rows, keys, numbers, strict=True):
        if key:
            names.setdefault(number, f"like {row.image}")
    linked = [
        replace(row, extra={**row.extra, DUPLICATE_GROUP: names[number] if key else ""})
        for row, key, number in zip(rows, keys, numbers, strict=True)
    ]
    extra = dict.fromkeys([*manifest.extra_columns, DUPLICATE_GROUP])
    return Manifest(tuple(linked), manifest.folder, tuple(extra))


@dataclass(frozen=True)
class LeakingPairs:
    """Pairs of near-duplicates, the same picture included, in a prepared data set.

    Attributes:
        pictures: how many were compared.
        pairs: how many are near-duplicates of one another.
        across_splits: those of two splits, by the splits' names in the order of `SPLITS`.
        across_clients: those of two clients.
    """

    pictures: int
    pairs: int
    across_splits: Mapping[tuple[str, str], int]
    across_clients: int


def leaking_pairs(data: PreparedDataset) -> LeakingPairs:
    """Count near-duplicates across the splits and the clients of a prepared data set.

    Takes 1.5 ms of one core for each picture, and for 10,000 a few seconds to compare them; nothing is
    decoded again. Squares of 64 pixels and more serve, smaller ones show too little.

    Raises:
        MissingLibraryError: the library that hashes is not installed.
    """
    table = data.table
    shown = table.rows[:, np.newaxis] if table.cases is None else table.cases.pictures
    entries, slots = (shown >= 0).nonzero()
    places, first = np.unique(shown[entries, slots], return_index=True)
    splits, clients = table.splits[entries[first]], table.clients[entries[first]]
    pairs = find_near_duplicates(fingerprint_all(data.images, places))
    parted = [
        sorted((int(splits[pair.first]), int(splits[pair.second])))
        for pair in pairs
        if splits[pair.first] != splits[pair.second]
    ]
    return LeakingPairs(
        pictures=len(places),
        pairs=len(pairs),
        across_splits=dict(Counter((SPLITS[one], SPLITS[other]) for one, other in sorted(parted))),
        across_clients=sum(bool(clients[pair.first] != clients[pair.second]) for pair in pairs),
    )


def fingerprint_all(images: NDArray[np.uint8], places: NDArray[np.int64]) -> Fingerprints:
    """The fingerprints of decoded pictures.

    Args:
        images: `(all, size, size, 3)`, such as a cache holds.
        places: which of them, `(n,)`.

    Raises:
        MissingLibraryError: the library that hashes is not installed.
    """
    require_hashing()
    with (
        progress("fingerprints of pictures", len(places)) as advance,
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,
    ):
        made = []
        for one in pool.map(lambda place: fingerprint(np.asarray(images[place])), places.tolist()):
            made.append(one)
            advance(1)
    return Fingerprints.joined(made)


def _said(row: Row) -> str:
    return f"{row.image} ({', '.join(filter(None, (name_of(row), row.split)))})"


def _diagnoses(rows: Sequence[Row]) -> str:
    told = ", ".join(f"{row.label} ({row.image})" for row in rows)
    return f"{len(rows)} diagnoses: {told}"
