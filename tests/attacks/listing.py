"""Histograms read as lists: each occupied bin as so many pictures at its middle."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts import ScoreHistograms
from registry.bundle.model import BINS_PER_DECADE
from tests.attacks.guessing import listed
from tests.attacks.old_way import bins_of_either
from tests.attacks.records import Records

Arrays = Mapping[str, NDArray[np.int64]]


def points(arrays: Arrays) -> dict[str, NDArray[np.int64]]:
    """What the control sends, without the replicates."""
    return {name: rows[0] for name, rows in arrays.items()}


def read_scores(arrays: Arrays) -> Records:
    """The true class of each picture, and the score of it.

    Two classes have one histogram between them; that of the second is read, on both sides.
    """
    scores = arrays["scores"]
    middles = bins_of_either(scores.shape[-1]).middles
    classes = scores.shape[0]
    if classes == 2:
        second = [middles[listed(side)] for side in scores[1]]
        own = np.concatenate([1 - second[0], second[1]])
        labels = np.repeat([0, 1], [len(side) for side in second])
    else:
        of_class = [middles[listed(scores[k, 1])] for k in range(classes)]
        own, labels = np.concatenate(of_class), np.repeat(np.arange(classes), [len(of) for of in of_class])
    rows = np.repeat((1 - own)[:, None] / (classes - 1), classes, axis=1)
    rows[np.arange(len(own)), labels] = own
    return Records(labels, rows.argmax(axis=1), rows)


def read_bundle(reference: ScoreHistograms) -> Records:
    """Records of two classes: the score says the answer, and `right` whether it is true."""
    bins = bins_of_either(len(reference.confidence))
    right = np.array(reference.right)
    labels, second = [], []
    for place in listed(np.array(reference.scores[1])):
        score = bins.middles[place]
        confident = int(bins.bin(max(score, 1 - score)))
        is_right = right[confident] > 0
        right[confident] -= is_right
        labels.append(int(score > 0.5) if is_right else int(score <= 0.5))
        second.append(score)
    rows = np.array(second)
    return Records(np.array(labels), (rows > 0.5).astype(np.int64), np.stack([1 - rows, rows], axis=1))


def read_distances(histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bin of each run for one picture, and evenly from the run before for its others."""
    claimed: list[int] = []
    below = None
    for place in np.flatnonzero(histogram):
        start = place - BINS_PER_DECADE // 4 if below is None else below
        spread = np.linspace(place, start, int(histogram[place]), endpoint=False)
        claimed += spread.round().astype(int).tolist()
        below = place
    return np.array(claimed)
