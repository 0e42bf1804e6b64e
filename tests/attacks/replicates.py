"""Records out of bootstrap replicates: each bin's column is a sum of the weights of the pictures in it."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.attacks.old_way import middle_of
from tests.attacks.records import Records

Arrays = Mapping[str, NDArray[np.int64]]
_HISTOGRAMS = ("malignancy", "confidence", "confusion")


def read_records(arrays: Arrays, weights: NDArray[np.int64]) -> Records:
    """The record of every picture whose weights are known.

    Args:
        arrays: as the control sends them, of one hospital or summed over several.
        weights: of each picture, `(replicates, pictures)`.
    """
    scores = arrays["scores"]
    classes, bins = scores.shape[1], scores.shape[-1]
    places = np.stack([locate(scores[:, k].reshape(len(scores), -1), weights) for k in range(classes)])
    found = (places >= 0).all(axis=0)
    side, place = np.divmod(places[:, found], bins)
    probabilities = middle_of(place).T
    pairs = locate(arrays["confusion"].reshape(len(scores), -1), weights)[found]
    answers = np.where(pairs >= 0, pairs % classes, probabilities.argmax(axis=1))
    return Records(side.argmax(axis=0), answers, probabilities)


def locate(rows: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bin of one histogram that each picture is in, `(pictures,)`; -1 where it cannot be said.

    Bins of one and of two pictures are looked up; the others are solved for the pictures that are left, by
    least squares where they are fewer than replicates, and as a sparse sum where they are more.

    Args:
        rows: the histogram and its replicates, `(1 + replicates, bins)`.
        weights: of each picture, `(replicates, pictures)`.
    """
    counts, columns = rows[0], rows[1:]
    places = np.full(weights.shape[1], -1)
    names = {column.tobytes(): number for number, column in enumerate(np.ascontiguousarray(weights.T))}
    left = []
    for cell in np.flatnonzero(counts):
        column = np.ascontiguousarray(columns[:, cell])
        members = _looked_up(column, int(counts[cell]), weights, names)
        if members is None:
            left.append(cell)
        else:
            places[members] = cell
    free = np.flatnonzero(places < 0)
    for cell, share in zip(left, _shares(columns[:, left], weights[:, free]).T, strict=True):
        if np.abs(share - np.rint(share)).max(initial=0.0) < 0.1:
            places[free[np.rint(share) == 1]] = cell
    return places


def _looked_up(
    column: NDArray[np.int64], count: int, weights: NDArray[np.int64], names: Mapping[bytes, int]
) -> list[int] | None:
    if count == 1:
        number = names.get(column.tobytes())
        return None if number is None else [number]
    if count == 2:
        for first in np.flatnonzero((weights <= column[:, None]).all(axis=0)):
            second = names.get(np.ascontiguousarray(column - weights[:, first]).tobytes())
            if second is not None and second != first:
                return [int(first), second]
    return None


def _shares(columns: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """By how much each picture is in each bin, `(pictures, bins)`: 0 or 1, where the replicates tell."""
    if weights.shape[1] <= 0.9 * len(weights):
        return np.linalg.lstsq(weights.astype(float), columns.astype(float), rcond=None)[0]
    price, shares = np.ones(weights.shape[1]), np.full((weights.shape[1], columns.shape[1]), 0.5)
    for place, column in enumerate(columns.T):
        solved = linprog(price, A_eq=weights, b_eq=column, bounds=(0, 1), method="highs")
        if solved.x is not None:
            shares[:, place] = solved.x
    return shares


def single_weights(arrays: Arrays) -> NDArray[np.int64]:
    """Weights of single pictures, found without knowing any seed, `(replicates, pictures)`.

    A bin of one picture has that picture's weights as its column. A bin of more holds the pictures whose
    weights are nowhere above its column; where all but one of them are known, the rest is the last one's.
    """
    histograms = [arrays["scores"][:, k] for k in range(arrays["scores"].shape[1])]
    histograms += [arrays[name] for name in _HISTOGRAMS]
    known: dict[bytes, NDArray[np.int64]] = {}
    several: list[tuple[int, NDArray[np.int64]]] = []
    for histogram in histograms:
        rows = histogram.reshape(len(histogram), -1)
        for cell in np.flatnonzero(rows[0]):
            column = np.ascontiguousarray(rows[1:, cell])
            if rows[0, cell] == 1:
                known[column.tobytes()] = column
            else:
                several.append((int(rows[0, cell]), column))
    before = -1
    while before != len(known):
        before = len(known)
        for count, column in sorted(several, key=lambda each: each[0]):
            table = np.stack(list(known.values()), axis=1) if known else np.zeros((len(column), 0), int)
            inside = np.flatnonzero((table <= column[:, None]).all(axis=0))
            rest = np.ascontiguousarray(column - table[:, inside].sum(axis=1))
            if len(inside) == count - 1 and (rest >= 0).all():
                known[rest.tobytes()] = rest
    return np.stack(list(known.values()), axis=1) if known else np.zeros((len(arrays["scores"]) - 1, 0), int)


def same_pictures(models: Sequence[NDArray[np.int64]]) -> list[tuple[int, ...]]:
    """Which pictures of several models' answers are one: those with equal weights."""
    tables = [
        {column.tobytes(): number for number, column in enumerate(np.ascontiguousarray(of.T))}
        for of in models
    ]
    shared = set(tables[0]).intersection(*tables[1:])
    return [tuple(table[key] for table in tables) for key in shared]
