"""Answers of a drawn model to drawn test pictures, and the figures that it has in the long run.

A picture's log-odds are those of its class, and noise that pictures of a lesion share in part. A model of
kind `unsure` is so and knows it; one of kind `sure` is surer than it should be, and some lesions look to it
like another class.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHARED = 0.6  # of the variance of the noise, within a lesion
PICTURES_OF_A_LESION = (1, 2, 3, 4)  # in turn, where lesions have several
LOOK_ALIKE, SURER = 0.12, 4.5
FEWEST_OF_A_CLASS = 2
FALL = 0.62  # of unequal classes, each has so many of the one before
RARE_OF_TWO = 0.06

Probabilities = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """Test pictures, and a model.

    Attributes:
        kind: `unsure` or `sure`.
        classes: how many.
        pictures: how many.
        equal: whether classes are of as many pictures.
        several: whether lesions have several pictures.
        skill: by how much the log-odds of the right class are higher.
    """

    kind: str
    classes: int
    pictures: int
    equal: bool
    several: bool
    skill: float = 1.4

    @property
    def sizes(self) -> Labels:
        """The pictures of each class, the largest first."""
        if self.equal:
            mix = np.ones(self.classes)
        else:
            mix = (
                np.array([1 - RARE_OF_TWO, RARE_OF_TWO])
                if self.classes == 2
                else FALL ** np.arange(self.classes)
            )
        sizes = np.maximum((mix / mix.sum() * self.pictures).astype(int), FEWEST_OF_A_CLASS)
        sizes[0] += self.pictures - sizes.sum()
        return sizes

    @property
    def lesions(self) -> Labels:
        """The lesion of each picture; all of one are of one class."""
        if not self.several:
            return np.arange(self.pictures)
        lesions: list[int] = []
        for size in self.sizes:
            of_class = np.repeat(np.arange(size), np.resize(PICTURES_OF_A_LESION, size))[:size]
            lesions.extend(of_class + (max(lesions) + 1 if lesions else 0))
        return np.array(lesions)

    def draw(self, rng: np.random.Generator) -> tuple[Probabilities, Labels]:
        """Probabilities and labels of one test split."""
        return self._draw(rng, np.repeat(np.arange(self.classes), self.sizes), self.lesions)

    def in_the_long_run(self, rng: np.random.Generator, pictures: int) -> tuple[Probabilities, Labels]:
        """Those of about so many pictures in the same mix, each a lesion of its own."""
        labels = np.repeat(np.arange(self.classes), self.sizes * max(1, pictures // self.pictures))
        return self._draw(rng, labels, np.arange(len(labels)))

    def _draw(
        self, rng: np.random.Generator, labels: Labels, lesions: Labels
    ) -> tuple[Probabilities, Labels]:
        lesion_count, rows = int(lesions.max()) + 1, np.arange(len(labels))
        shared = rng.normal(size=(lesion_count, self.classes))[lesions]
        log_odds = np.sqrt(SHARED) * shared + np.sqrt(1 - SHARED) * rng.normal(size=shared.shape)
        looks = labels
        if self.kind == "sure":
            other = rng.integers(1, self.classes, lesion_count) * (rng.random(lesion_count) < LOOK_ALIKE)
            looks = (labels + other[lesions]) % self.classes
        log_odds[rows, looks] += self.skill + 0.35 * np.log(self.classes)
        odds = np.exp(log_odds * (SURER if self.kind == "sure" else 1))
        return odds / odds.sum(axis=1, keepdims=True), labels
