"""What `--check` says of near-duplicates across the splits and clients of a job."""

from clients.data.inspect.near_duplicates import LeakingPairs, leaking_pairs
from clients.data.pictures.fingerprints import can_fingerprint
from clients.data.prepared import PreparedDataset

MOST = 4000
"""Pictures that are looked at before a run; more take longer than anybody waits for a check."""

SMALLEST = 64
"""Pixels on both sides, below which a picture shows too little to be told from another."""


def leak_notes(data: PreparedDataset) -> list[str]:
    """Sentences on near-duplicates across splits and across clients, and one where none were sought.

    Pictures of the same lesion, patient or `duplicate_group` are in one split already.
    """
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
