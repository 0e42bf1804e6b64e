"""Patients of every skin tone, for bundles that are made by hand."""

from collections.abc import Iterable

from registry.bundle.labels import Subgroup, TonePatients
from registry.bundle.skin_tone import SCALES, canonical_tone


def patients_of(subgroup: Subgroup, n: int = 40, without: Iterable[str] = ()) -> TonePatients:
    """So many patients of each tone of a subgroup, or of every tone of every scale for the global model.

    Args:
        subgroup: whose tones.
        n: patients of each, in calibration and test alike.
        without: tones of which there are too few.
    """
    tones = SCALES if subgroup.is_global else subgroup.by_scale
    counts = {
        scale: {tone: n for tone in (canonical_tone(value, scale) for value in values) if tone not in without}
        for scale, values in tones.items()
    }
    return TonePatients(calibration=counts, test=counts)
