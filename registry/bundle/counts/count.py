"""Counts a client's predictions; the counts, which add up over clients, are all that leaves a hospital.

A prediction never leaves a hospital; its place in a confusion matrix and in histograms of scores
does, summed over all pictures of a subgroup. Every figure in `registry.bundle.metrics` is computed
from these sums, with a resolution of one bin, 1/500.

The same counts for a number of bootstrap replicates give intervals: in each replicate a lesion's
pictures count w times with one w ~ Poisson(1) per lesion, so that an interval respects lesions and
replicates of different clients add up like the counts themselves (Chamandy et al. 2012).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.block import Block, Counts, array_shapes
from registry.bundle.counts.confusion import Cell, Trait
from registry.bundle.counts.score_bins import SCORE_BINS, malignancy_probability, score_bin
from registry.bundle.errors import CountsError

__all__ = ["SCORE_BINS", "Block", "Counts", "count", "malignancy_probability", "score_bin"]

_TOLERANCE = 0.01  # how far probabilities and their sum may be off: half precision is this coarse


def count(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    *,
    malignant: NDArray[np.bool_],
    lesions: NDArray[Any] | None = None,
    replicates: int = 0,
    seed: int = 0,
    answers: NDArray[np.int64] | None = None,
    parts: Mapping[Trait, NDArray[np.bool_]] | None = None,
) -> Block:
    """Counts predictions, and `replicates` bootstrap replicates of them.

    Args:
        probabilities: `(pictures, classes)`; each row sums to 1.
        labels: the true class index of each picture, `(pictures,)`; no -1.
        malignant: which classes are malignant, `(classes,)`.
        lesions: the lesion of each picture, `(pictures,)`; each its own where not given.
        replicates: how many bootstrap replicates to draw.
        seed: of the draw; the same seed and lesions give the same weights.
        answers: the class index answered for each picture, `(pictures,)`, where that is not the class of
            highest probability; its probability is then the confidence.
        parts: which pictures `(pictures,)` share a trait; each gives a cell of the block, with replicates of
            the same weights.

    Raises:
        CountsError: the arrays do not fit together, or are no probabilities and class indices.
    """
    probabilities, labels = _read(probabilities, labels, malignant, lesions)
    if answers is None:
        answers = probabilities.argmax(axis=1) if len(labels) else labels
    cells, size = _cells(probabilities, labels, malignant, answers)
    num_classes = len(malignant)
    point = _unpack(np.bincount(cells.ravel(), minlength=size), num_classes)
    pairs = labels * num_classes + answers
    within = {trait: keep.nonzero()[0] for trait, keep in (parts or {}).items()}
    matrices = {trait: np.empty((replicates + 1, num_classes**2), dtype=np.int64) for trait in within}
    for trait, places in within.items():
        matrices[trait][0] = np.bincount(pairs[places], minlength=num_classes**2)
    if not replicates:
        return Block(point, cells=_squared(matrices, num_classes))

    owners = np.arange(len(labels)) if lesions is None else np.unique(lesions, return_inverse=True)[1]
    generator = np.random.Generator(np.random.PCG64(seed))
    rows = np.empty((replicates, size), dtype=np.int64)
    for number, row in enumerate(rows, start=1):
        weights = generator.poisson(1.0, size=int(owners.max(initial=-1)) + 1)[owners]
        # Weighted bincount sums floats, exact for whole numbers up to 2**53.
        row[:] = np.bincount(cells.ravel(), weights=np.repeat(weights, cells.shape[1]), minlength=size)
        for trait, places in within.items():
            matrices[trait][number] = np.bincount(
                pairs[places], weights=weights[places], minlength=num_classes**2
            )
    return Block(point, _unpack(rows, num_classes), _squared(matrices, num_classes))


def _read(
    probabilities: NDArray[Any],
    labels: NDArray[Any],
    malignant: NDArray[np.bool_],
    lesions: NDArray[Any] | None,
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
    if lesions is not None and np.shape(lesions) != labels.shape:
        raise CountsError(f"{np.shape(lesions)} lesions for {labels.shape} pictures; each picture needs one")
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


def _are_probabilities(rows: NDArray[np.float64]) -> bool:
    if not np.isfinite(rows).all():
        return False
    return bool((rows >= -_TOLERANCE).all() and (np.abs(rows.sum(axis=1) - 1) <= _TOLERANCE).all())


def _cells(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    answers: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """The indices, in all four arrays laid end to end, that each picture adds one to.

    Returns:
        The cells `(pictures, cells per picture)` and the number of cells there are.
    """
    pictures, num_classes = probabilities.shape
    shapes = array_shapes(num_classes)
    starts = dict(
        zip(shapes, np.cumsum([0] + [int(np.prod(shape)) for shape in shapes.values()]), strict=False)
    )
    classes = np.arange(num_classes)

    confusion = labels * num_classes + answers
    is_class = (labels[:, np.newaxis] == classes).astype(np.int64)
    scores = (classes * 2 + is_class) * SCORE_BINS + score_bin(probabilities)
    right = (answers == labels).astype(np.int64)
    confidence = right * SCORE_BINS + score_bin(probabilities[np.arange(pictures), answers])
    columns = [
        starts["confusion"] + confusion[:, np.newaxis],
        starts["scores"] + scores,
        starts["confidence"] + confidence[:, np.newaxis],
    ]
    if malignant.any() and not malignant.all():
        summed = malignancy_probability(probabilities, malignant)
        malignancy = malignant[labels].astype(np.int64) * SCORE_BINS + score_bin(summed)
        columns.append(starts["malignancy"] + malignancy[:, np.newaxis])
    return np.concatenate(columns, axis=1), sum(int(np.prod(shape)) for shape in shapes.values())


def _unpack(cells: NDArray[np.int64], num_classes: int) -> Counts:
    shapes = array_shapes(num_classes).values()
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(cells, ends[:-1], axis=-1)
    return Counts(
        *(part.reshape(cells.shape[:-1] + shape) for part, shape in zip(parts, shapes, strict=True))
    )


def _squared(matrices: Mapping[Trait, NDArray[np.int64]], num_classes: int) -> dict[Trait, Cell]:
    return {
        trait: Cell.from_array(rows.reshape(-1, num_classes, num_classes)) for trait, rows in matrices.items()
    }
