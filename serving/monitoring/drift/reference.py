"""The reference histograms of drift: those of the bundle's test pictures, in the bins of drift."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import ScoreHistograms
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.manifest import BundleManifest
from serving.monitoring.drift.bins import coarse_distances, coarse_scores
from serving.monitoring.drift.distance import Merged

Measure = Literal["confidence", "malignancy", "classes", "unfamiliarity"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True)
class Expected:
    """A histogram of the test pictures.

    Attributes:
        counts: over the bins of drift.
        merged: how it was merged; None where it was not.
    """

    counts: NDArray[np.float64]
    merged: Merged | None = None


def expected(manifest: BundleManifest, subgroup: str, measure: Measure) -> Expected | None:
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
        return _scores(own, own.confidence)
    if measure == "classes":
        sums: NDArray[np.float64] = np.array(own.scores) @ LOGIT_BINS.middles
        return Expected(sums * sum(own.confidence) / sums.sum()) if sums.any() else None
    return None if own.malignancy is None else _scores(own, own.malignancy)


def _scores(own: ScoreHistograms, histogram: tuple[int, ...]) -> Expected:
    return Expected(coarse_scores(np.array(histogram)).astype(np.float64), _merged(own))


def _merged(own: ScoreHistograms) -> Merged | None:
    return Merged(own.smallest_cell, own.parts) if own.smallest_cell > 1 else None


def _distances(manifest: BundleManifest) -> Expected | None:
    known, reference = manifest.out_of_distribution, manifest.reference
    if known is None or known.threshold_bin is None:
        return None
    if reference is None or reference.distances is None:
        return Expected(np.array([1 - known.rate, known.rate]) * known.n)
    counts = coarse_distances(np.array(reference.distances), known.threshold_bin).astype(np.float64)
    return Expected(counts, _merged(reference))
