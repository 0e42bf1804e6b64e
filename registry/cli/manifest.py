"""What `show` tells of a bundle's manifest in JSON: all that a reader has a use for."""

from typing import Any

from registry.bundle.manifest.schema import BundleManifest

# Histograms and packed matrices: of no use to a reader.
_UNREADABLE: dict[str, Any] = {"reference": True, "out_of_distribution": {"means": True, "whitening": True}}
_OF_CASES: dict[str, Any] = {"case": True, "patterns": True}


def readable(manifest: BundleManifest) -> dict[str, Any]:
    """The manifest without packed figures, and without the fields that this model has no use for.

    A model of single pictures is told as versions before told it: without `case` and `patterns`, and
    without `working_point` and `attestation` where it has none.
    """
    left_out = dict(_UNREADABLE)
    if manifest.working_point is None:
        left_out["working_point"] = True
    if manifest.attestation is None:
        left_out["attestation"] = True
    if manifest.case is None:
        left_out |= _OF_CASES
    return manifest.model_dump(mode="json", exclude=left_out)
