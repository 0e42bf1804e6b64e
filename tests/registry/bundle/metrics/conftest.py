"""Counts drawn at random with known recalls, and counts along a leading axis."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Counts


@pytest.fixture(scope="session")
def of_confusion() -> Callable[[np.ndarray], Counts]:
    """Counts that know their confusion matrix alone."""

    def make(confusion: np.ndarray) -> Counts:
        lead, k = confusion.shape[:-2], confusion.shape[-1]
        return Counts(confusion, *(np.zeros(lead + of, int) for of in ((k, 2, 0), (2, 0), (2, 0))))

    return make


@pytest.fixture(scope="session")
def block_of(of_confusion: Callable[[np.ndarray], Counts]) -> Callable[..., Block]:
    """A block of this confusion matrix, every picture a lesion of its own."""
    return lambda confusion: Block(of_confusion(np.array(confusion)))


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


@pytest.fixture(scope="session")
def stack() -> Callable[[Sequence[Counts]], Counts]:
    """Counts along a leading axis."""

    def together(several: Sequence[Counts]) -> Counts:
        return Counts(*(np.stack([getattr(one, each.name) for one in several]) for each in fields(Counts)))

    return together
