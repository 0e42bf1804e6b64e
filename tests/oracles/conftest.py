"""Predictions to judge with our figures and with those of other libraries."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from registry.bundle.counting import count
from registry.bundle.counts import Counts


@dataclass(frozen=True)
class Cohort:
    """Pictures of several subgroups, as arrays with one entry for each picture.

    Attributes:
        probabilities: `(pictures, classes)`.
        labels: true class indices.
        groups: the subgroup's name.
    """

    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    groups: NDArray[np.str_]

    @property
    def answers(self) -> NDArray[np.int64]:
        """The most probable class."""
        return self.probabilities.argmax(axis=1)

    def of(self, name: str) -> "Cohort":
        """The pictures of one subgroup."""
        inside = self.groups == name
        return Cohort(self.probabilities[inside], self.labels[inside], self.groups[inside])

    @property
    def counts(self) -> Counts:
        """Counts of all pictures; class 0 is malignant."""
        malignant = np.arange(self.probabilities.shape[1]) == 0
        return count(self.probabilities, self.labels, malignant=malignant).point

    @property
    def subgroups(self) -> dict[str, Counts]:
        """Counts of each subgroup."""
        return {str(name): self.of(name).counts for name in np.unique(self.groups)}


def draw_cohort(seed: int, sizes: tuple[int, ...] = (40, 90, 160), num_classes: int = 3) -> Cohort:
    """Subgroups of these sizes, each with its own mix of classes and difficulty; all have all classes."""
    rng = np.random.default_rng(seed)
    probabilities, labels, groups = [], [], []
    for name, size in zip("abcdef", sizes, strict=False):
        mix = rng.dirichlet(np.full(num_classes, 2.0))
        truth = np.concatenate([np.arange(num_classes), rng.choice(num_classes, size - num_classes, p=mix)])
        logits = rng.normal(size=(size, num_classes)) + rng.uniform(0.3, 2) * np.eye(num_classes)[truth]
        odds = np.exp(rng.uniform(0.5, 3) * logits)
        probabilities.append(odds / odds.sum(axis=1, keepdims=True))
        labels.append(truth)
        groups += [name] * size
    return Cohort(np.concatenate(probabilities), np.concatenate(labels), np.array(groups))


@pytest.fixture(scope="session")
def cohort() -> Callable[..., Cohort]:
    """Draws a cohort: a seed, the sizes of its subgroups, and how many classes."""
    return draw_cohort
