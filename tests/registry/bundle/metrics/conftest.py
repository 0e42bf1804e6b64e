"""Counts drawn at random with known recalls, with bootstrap replicates of one picture a lesion."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from registry.bundle.counts.count import Block, Counts


@pytest.fixture(scope="session")
def of_confusion() -> Callable[[np.ndarray], Counts]:
    """Counts that know their confusion matrix alone."""

    def make(confusion: np.ndarray) -> Counts:
        lead, k = confusion.shape[:-2], confusion.shape[-1]
        return Counts(confusion, *(np.zeros(lead + of, int) for of in ((k, 2, 0), (2, 0), (2, 0))))

    return make


@pytest.fixture(scope="session")
def block_of(of_confusion: Callable[[np.ndarray], Counts]) -> Callable[..., Block]:
    """A block of this confusion matrix, with replicates where given a generator."""

    def make(confusion: Any, rng: np.random.Generator | None = None, replicates: int = 200) -> Block:
        matrix = np.array(confusion)
        if rng is None:
            return Block(of_confusion(matrix))
        # A sum of c weights of Poisson(1) is Poisson(c).
        drawn = rng.poisson(np.broadcast_to(matrix, (replicates, *matrix.shape)))
        return Block(of_confusion(matrix), of_confusion(drawn))

    return make


@pytest.fixture(scope="session")
def draw_confusion() -> Callable[..., np.ndarray]:
    """So many pictures of each class, answered rightly with these probabilities; else the next class."""

    def draw(rng: np.random.Generator, pictures: Any, recalls: Any) -> np.ndarray:
        of, k = np.array(pictures), len(pictures)
        right = rng.binomial(of, recalls)
        matrix = np.diag(right)
        matrix[np.arange(k), (np.arange(k) + 1) % k] += of - right
        return matrix

    return draw
