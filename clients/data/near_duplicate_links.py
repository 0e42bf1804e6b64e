"""Pictures that are the same under two names: whom they leak between, and keeping them together.

The same bytes, and near-duplicates (`clients.data.near_duplicates`): in a manifest's rows, for
`dermfed-data check` and `dermfed-data link`, and in a prepared data set, across its splits and clients.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clients.data.manifest import DUPLICATE_GROUP, Manifest, Row, components
from clients.data.near_duplicates import (
    Fingerprints,
    NearDuplicate,
    can_fingerprint,
    find_near_duplicates,
    fingerprint,
)
from clients.data.partition_rules import name_of
from clients.data.picture_files import in_threads
from clients.data.prepared import PreparedDataset
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


def _said(row: Row) -> str:
    return f"{row.image} ({', '.join(filter(None, (name_of(row), row.split)))})"


def _diagnoses(rows: Sequence[Row]) -> str:
    told = ", ".join(f"{row.label} ({row.image})" for row in rows)
    return f"{len(rows)} diagnoses: {told}"


MOST = 4000
"""Pictures that are looked at before a run; more take longer than anybody waits for a check."""

SMALLEST = 64
"""Pixels on both sides, below which a picture shows too little to be told from another."""


def leak_notes(data: PreparedDataset) -> list[str]:
    """Sentences on patients at two clients, and on near-duplicates across splits and clients.

    Pictures of the same lesion, patient or `duplicate_group` are in one split already.
    """
    return [*shared_owners(data), *near_duplicates(data)]


def shared_owners(data: PreparedDataset) -> list[str]:
    """A sentence on patients, or lesions, that are at two clients."""
    names = data.table.names
    if names is None:
        return []
    pairs = np.unique(np.stack([names[:, 1], data.table.clients]), axis=1)
    _, at = np.unique(pairs[0], return_counts=True)
    shared = int((at > 1).sum())
    if not shared:
        return []
    return [
        f"{shared} patients are at two clients or more, by patient_id, lesion_id or duplicate_group, and stay"
        " in one split; where two hospitals both count from 1, give their ids a prefix"
    ]


def near_duplicates(data: PreparedDataset) -> list[str]:
    """Sentences on near-duplicates across splits and clients, or one where none were sought.

    Takes 1.5 ms of one core for each picture; nothing is decoded again.
    """
    elsewhere = "`dermfed-data check` seeks them in each manifest"
    if not can_fingerprint():
        return [f"near-duplicates were not sought, for want of ImageHash: pip install ImageHash; {elsewhere}"]
    if data.images.shape[1] < SMALLEST:
        return [f"near-duplicates were not sought in pictures of fewer than {SMALLEST} pixels; {elsewhere}"]
    if data.report.pictures > MOST:
        return [f"near-duplicates were not sought among {data.report.pictures} pictures; {elsewhere}"]
    table = data.table
    shown = table.rows[:, np.newaxis] if table.cases is None else table.cases.pictures
    entries, slots = (shown >= 0).nonzero()
    places, first = np.unique(shown[entries, slots], return_index=True)
    splits, clients = table.splits[entries[first]], table.clients[entries[first]]
    prints = in_threads(
        "fingerprints of pictures", lambda place: fingerprint(data.images[place]), places.tolist()
    )
    found, at_two_clients = Counter[tuple[int, int]](), 0
    for pair in find_near_duplicates(Fingerprints.joined(list(prints))):
        one, other = sorted((int(splits[pair.first]), int(splits[pair.second])))
        found[one, other] += one != other
        at_two_clients += int(clients[pair.first] != clients[pair.second])
    notes = []
    if found.total():
        named = ", ".join(
            f"{n} of {SPLITS[one]} and {SPLITS[other]}" for (one, other), n in sorted(found.items()) if n
        )
        notes.append(
            f"{found.total()} pairs of near-duplicates are in two splits ({named}), so that figures may be "
            "too good; `dermfed-data check` names them, and `dermfed-data link` writes a manifest that keeps "
            "them together"
        )
    if at_two_clients:
        notes.append(f"{at_two_clients} pairs of near-duplicates are at two clients: is a patient at both?")
    return notes
