"""The reference histograms of drift: those of the bundle's test pictures, in the bins of drift."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import BundleManifest
from serving.monitoring.drift.bins import coarse_distances, coarse_scores

Measure = Literal["confidence", "malignancy", "classes", "unfamiliarity"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


def expected(manifest: BundleManifest, subgroup: str, measure: Measure) -> NDArray[np.float64] | None:
    """The histogram of the test pictures in the bins of drift; None where the bundle does not hold it.

    Those of the subgroup where the model for everybody was tested on it; else of all pictures that the model
    was tested on, which are the subgroup's for a subgroup's own model. Of distances, a bundle without a
    histogram still gives two bins: which share of known pictures may lie beyond the threshold.

    Args:
        manifest: of the version that answers.
        subgroup: of the declared tone.
        measure: what is measured; `classes` has one bin for each class, not one for each score.
    """
    reference = manifest.reference
    if measure == "unfamiliarity":
        return _distances(manifest)
    if reference is None:
        return None
    own = next((one for one in reference.by_subgroup if one.subgroup.name == subgroup), reference)
    if measure == "confidence":
        return coarse_scores(np.array(own.confidence)).astype(np.float64)
    if measure == "classes":
        middles = (np.arange(SCORE_BINS) + 0.5) / SCORE_BINS
        sums: NDArray[np.float64] = np.array(own.scores) @ middles
        return sums * sum(own.confidence) / sums.sum() if sums.any() else None
    if own.malignancy is not None:
        return coarse_scores(np.array(own.malignancy)).astype(np.float64)
    malignant = np.flatnonzero(malignant_classes(manifest.labels))
    # Bundles of older versions hold each class alone; of several malignant ones the sum is unknown.
    one_class = len(malignant) == 1
    return coarse_scores(np.array(own.scores[malignant[0]])).astype(np.float64) if one_class else None


def _distances(manifest: BundleManifest) -> NDArray[np.float64] | None:
    known, reference = manifest.out_of_distribution, manifest.reference
    if known is None or known.threshold_bin is None:
        return None
    if reference is None or reference.distances is None:
        return np.array([1 - known.rate, known.rate]) * known.n
    return coarse_distances(np.array(reference.distances), known.threshold_bin).astype(np.float64)
