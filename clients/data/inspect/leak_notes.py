"""What `--check` says of near-duplicates across the splits and clients of a job."""

import numpy as np

from clients.data.inspect.near_duplicates import LeakingPairs, leaking_pairs
from clients.data.pictures.fingerprints import can_fingerprint
from clients.data.prepared import PreparedDataset

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
    """Sentences on near-duplicates, or one where none were sought."""
    elsewhere = "`dermfed-data check` seeks them in each manifest"
    if not can_fingerprint():
        return [f"near-duplicates were not sought, for want of ImageHash: pip install ImageHash; {elsewhere}"]
    if data.images.shape[1] < SMALLEST:
        return [f"near-duplicates were not sought in pictures of fewer than {SMALLEST} pixels; {elsewhere}"]
    if data.report.pictures > MOST:
        return [f"near-duplicates were not sought among {data.report.pictures} pictures; {elsewhere}"]
    return told(leaking_pairs(data))


def told(pairs: LeakingPairs) -> list[str]:
    """What was found, in sentences."""
    found = []
    if pairs.across_splits:
        splits = ", ".join(f"{n} of {one} and {other}" for (one, other), n in pairs.across_splits.items())
        found.append(
            f"{sum(pairs.across_splits.values())} pairs of near-duplicates are in two splits ({splits}), so "
            "that figures may be too good; `dermfed-data check` names them, and `dermfed-data link` writes a "
            "manifest that keeps them together"
        )
    if pairs.across_clients:
        found.append(
            f"{pairs.across_clients} pairs of near-duplicates are at two clients: is a patient at both?"
        )
    return found
