"""Counts drawn at random with known recalls, and counts along a leading axis."""

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
import pytest

from registry.bundle.counting import Block
from registry.bundle.counts import Counts


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
def stack() -> Callable[[Sequence[Counts]], Counts]:
    """Counts along a leading axis."""

    def together(several: Sequence[Counts]) -> Counts:
        return Counts(*(np.stack([getattr(one, each.name) for one in several]) for each in fields(Counts)))

    return together
