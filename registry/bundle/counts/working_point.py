"""The working point: from which probability of malignancy on a lesion is suspicious.

A suspicious picture whose answer is no malignant class is referred, however confident the answer. Whatever
decides, counts or calibrates asks here, so that what is counted is what is served.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.score_bins import malignancy_probability, score_bin


def is_suspicious(
    probabilities: NDArray[Any], malignant: NDArray[np.bool_], malignant_from: int | NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Which pictures are at the working point or above, `(pictures,)`; none without one.

    Args:
        probabilities: `(pictures, classes)`.
        malignant: which classes are malignant, `(classes,)`.
        malignant_from: the working point as a score bin, or that of each picture.
    """
    if malignant_from is None:
        return np.zeros(len(probabilities), dtype=np.bool_)
    suspicious: NDArray[np.bool_] = (
        score_bin(malignancy_probability(probabilities, malignant)) >= malignant_from
    )
    return suspicious


def is_held_back(
    probabilities: NDArray[Any],
    answers: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    malignant_from: int | NDArray[np.int64] | None,
) -> NDArray[np.bool_]:
    """Which pictures are referred whatever their confidence: suspicious, and answered as not malignant.

    Args:
        probabilities: `(pictures, classes)`.
        answers: the class answered for each, `(pictures,)`.
        malignant: which classes are malignant, `(classes,)`.
        malignant_from: the working point as a score bin, or that of each picture.
    """
    return ~malignant[answers] & is_suspicious(probabilities, malignant, malignant_from)
