"""Counts a client's predictions; the counts, which add up over clients, are all that leaves a hospital.

A prediction does not leave a hospital; its place in a confusion matrix and in histograms of scores does,
summed over all pictures of a subgroup, with neighbouring bins of a histogram merged until each is of several
patients. Every figure in `registry.bundle.metrics` is computed from these sums.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.block import SIDES, Block, Counts
from registry.bundle.counts.confusion import Cell, Confusion, Trait
from registry.bundle.counts.decisions import Decisions, Thresholds, ThresholdsOfEach
from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.counts.merged_bins import merge, middle, nearest_to_mean
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS, malignancy_probability, score_bin
from registry.bundle.errors import CountsError

__all__ = ["SCORE_BINS", "Block", "Counts", "count", "malignancy_probability", "score_bin"]

_TOLERANCE = 0.01  # how far probabilities and their sum may be off: half precision is this coarse


def count(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    *,
    malignant: NDArray[np.bool_],
    lesions: NDArray[Any] | None = None,
    patients: NDArray[Any] | None = None,
    smallest_cell: int = 1,
    answers: NDArray[np.int64] | None = None,
    parts: Mapping[Trait, NDArray[np.bool_]] | None = None,
    thresholds: Thresholds | ThresholdsOfEach | None = None,
) -> Block:
    """Counts predictions.

    Args:
        probabilities: `(pictures, classes)`; each row sums to 1.
        labels: the true class index of each picture, `(pictures,)`; no -1.
        malignant: which classes are malignant, `(classes,)`.
        lesions: the lesion of each picture, `(pictures,)`; each its own where not given.
        patients: the patient of each picture, `(pictures,)`; the lesions where not given.
        smallest_cell: the fewest patients of an occupied bin of a histogram.
        answers: the class index answered for each picture, `(pictures,)`, where that is not the class of
            highest probability; its probability is then the confidence.
        parts: which pictures `(pictures,)` share a trait; each gives a cell of the block.
        thresholds: of the model, where their effect is to be counted too.

    Raises:
        CountsError: the arrays do not fit together, or are no probabilities and class indices.
    """
    probabilities, labels = _read(probabilities, labels, malignant)
    lesions = _numbered(lesions, labels, "lesions", np.arange(len(labels)))
    patients = _numbered(patients, labels, "patients", lesions)
    if answers is None:
        answers = probabilities.argmax(axis=1) if len(labels) else labels
    num_classes = len(malignant)
    pairs = labels * num_classes + answers
    within = {
        trait: np.bincount(pairs[keep], minlength=num_classes**2) for trait, keep in (parts or {}).items()
    }
    confusion = np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)
    scores, malignancy = _scores(probabilities, labels, malignant, patients, smallest_cell)
    return Block(
        Counts(
            confusion,
            scores,
            malignancy,
            _confidence(probabilities, labels, answers, patients, smallest_cell),
        ),
        _lesion_sums(labels, answers, malignant, lesions),
        None
        if thresholds is None
        else Decisions.count(probabilities, labels, answers, lesions, thresholds, malignant),
        {trait: Cell(Confusion(of.reshape(confusion.shape))) for trait, of in within.items()},
    )


def _read(
    probabilities: NDArray[Any], labels: NDArray[Any], malignant: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    probabilities = np.asarray(probabilities, dtype=np.float64)
    labels = np.asarray(labels)
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise CountsError(
            f"probabilities of shape {probabilities.shape} and labels of shape {labels.shape} do not "
            "fit; they are (pictures, classes) and (pictures,)"
        )
    if malignant.shape != probabilities.shape[1:] or malignant.dtype != np.bool_:
        raise CountsError(
            f"`malignant` is {malignant.dtype} of shape {malignant.shape}; it is one bool per class, "
            f"({probabilities.shape[1]},)"
        )
    if not _are_probabilities(probabilities):
        raise CountsError(
            "each row of probabilities is finite, without negatives, and sums to 1; "
            "these are logits, or broken"
        )
    if labels.size and (labels.min() < 0 or labels.max() >= probabilities.shape[1]):
        raise CountsError(
            f"labels run from {labels.min()} to {labels.max()}; class indices run from 0 to "
            f"{probabilities.shape[1] - 1}. Leave unlabelled pictures out"
        )
    return probabilities, labels.astype(np.int64)


def _numbered(
    given: NDArray[Any] | None, labels: NDArray[np.int64], name: str, otherwise: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Lesions or patients as numbers from 0 on, `(pictures,)`."""
    if given is None:
        return otherwise
    if np.shape(given) != labels.shape:
        raise CountsError(f"{np.shape(given)} {name} for {labels.shape} pictures; each picture needs one")
    numbers: NDArray[np.int64] = np.unique(given, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return numbers


def _are_probabilities(rows: NDArray[np.float64]) -> bool:
    if not np.isfinite(rows).all():
        return False
    return bool((rows >= -_TOLERANCE).all() and (np.abs(rows.sum(axis=1) - 1) <= _TOLERANCE).all())


def _scores(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    patients: NDArray[np.int64],
    smallest: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The histograms `scores` and `malignancy`.

    Two classes have one order of pictures: it is merged once, and class 0 is counted in the mirrored bins.
    Merged from its own top it would have runs that overlap those of class 1 by a few pictures.
    """

    def merged(column: NDArray[np.float64], patients: NDArray[np.int64] = patients) -> NDArray[np.int64]:
        return merge(score_bin(column), patients, smallest, middle, scores=column)

    num_classes = len(malignant)
    both_kinds = bool(malignant.any() and not malignant.all())
    if num_classes == 2:
        # The matrix tells the number on each side of one half: a run across would tell the few between.
        of_second = np.empty(len(labels), dtype=np.int64)
        for side in _sides(probabilities.argmax(axis=1) == 1, patients, smallest):
            of_second[side] = merged(probabilities[side, 1], patients[side])
        bins = [LOGIT_BINS.mirrored(of_second), of_second]
        summed = bins[int(malignant.argmax())]
    else:
        bins = [merged(column) for column in probabilities.T]
        summed = merged(malignancy_probability(probabilities, malignant))
    scores = np.stack([_two_sided(of, labels == k) for k, of in enumerate(bins)])
    nothing = np.zeros((2, SCORE_BINS), dtype=np.int64)
    return scores, _two_sided(summed, malignant[labels]) if both_kinds else nothing


def _sides(
    positive: NDArray[np.bool_], patients: NDArray[np.int64], smallest: int
) -> tuple[NDArray[np.bool_], ...]:
    """Which pictures are not so, and which are `(pictures,)`; in one where a side is of few patients."""
    sides = (~positive, positive)
    if min(len(np.unique(patients[side])) for side in sides) < smallest:
        return (np.ones_like(positive),)
    return sides


def _confidence(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest: int,
) -> NDArray[np.int64]:
    """The histogram `confidence`, with the mean confidence of a run kept."""
    highest = probabilities[np.arange(len(labels)), answers]
    to_mean = nearest_to_mean(LOGIT_BINS.middles)
    bins = merge(score_bin(highest), patients, smallest, to_mean, scores=highest)
    return _two_sided(bins, answers == labels)


def _two_sided(bins: NDArray[np.int64], positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The histogram `(2, bins)` of pictures that are not so (0) and so (1)."""
    flat = np.bincount(positive * SCORE_BINS + bins, minlength=2 * SCORE_BINS)
    return flat.reshape(2, SCORE_BINS)


def _lesion_sums(
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    lesions: NDArray[np.int64],
) -> LesionSums:
    """The sums of right answers by true class, and of answers on the right side by side."""
    by_class = LesionSums.count((answers == labels).astype(np.int64), labels, lesions, len(malignant))
    side = malignant[labels] if malignant.any() and not malignant.all() else None
    of_side = np.full(len(labels), -1) if side is None else np.where(side, 0, 1)
    by_side = LesionSums.count(
        (malignant[answers] == malignant[labels]).astype(np.int64), of_side, lesions, SIDES
    )
    return LesionSums(*np.concatenate([by_class.to_array(), by_side.to_array()]).T)
