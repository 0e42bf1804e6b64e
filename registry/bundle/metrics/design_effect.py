"""Design effects: by how much pictures of one lesion widen an interval.

n pictures of lesions with several pictures tell as much as n / deff independent ones, with

    deff = 1 + (s − 1) ρ  (Kish 1965),

s = Σ n_g² / Σ n_g the mean number of pictures at a picture's lesion and ρ the correlation of right answers
within a lesion. ρ is estimated from the sums by lesion, over all classes: Σ_g Σ_{i≠j} e_i e_j / (pairs · mean
e²), with e = right − the share of right answers, of the picture's class or of all, whichever gives more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.block import Block
from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.metrics.ratio import Figure


@dataclass(frozen=True)
class DesignEffect:
    """What is known of how alike pictures of a lesion are.

    Attributes:
        correlation: ρ, `(...)`.
        sizes: s of the pictures of each class, `(..., classes)`; 1 for an absent class.
    """

    correlation: Figure
    sizes: Figure

    @classmethod
    def of(cls, block: Block) -> "DesignEffect":
        """That of a block."""
        return cls.estimated(block.by_lesion)

    @classmethod
    def estimated(cls, right: LesionSums) -> "DesignEffect":
        """From the sums of right answers by true class, `(..., classes)`."""
        pooled = LesionSums(*np.moveaxis(right.to_array().sum(axis=-2, keepdims=True), -1, 0))
        found = np.maximum(_correlation(right), _correlation(pooled))
        pairs, several = (right.nn - right.n).sum(axis=-1), right.several.sum(axis=-1)
        # Few lesions with several pictures tell little of the correlation: it may be that much higher.
        may_be = np.clip(found, 0.0, 1.0) + 1 / np.sqrt(np.maximum(several, 1))
        sizes = np.where(right.n > 0, right.nn / np.maximum(right.n, 1), 1.0)
        return cls(np.where(pairs > 0, np.minimum(may_be, 1.0), 0.0), sizes)

    @property
    def of_classes(self) -> Figure:
        """The design effect of each class, `(..., classes)`."""
        return 1 + (self.sizes - 1) * self.correlation[..., np.newaxis]

    def of_pictures(self, by_class: NDArray[np.float64]) -> Figure:
        """That of so many pictures of each class together, `(..., [more,] classes)` to `(..., [more])`."""
        more = (1,) * (by_class.ndim - self.sizes.ndim)
        effects = self.of_classes
        effects = effects.reshape(*effects.shape[:-1], *more, effects.shape[-1])
        n = by_class.sum(axis=-1)
        return np.where(n > 0, (by_class * effects).sum(axis=-1) / np.maximum(n, 1e-9), 1.0)

    def of_scores(self) -> "DesignEffect":
        """That of scores, of which right and wrong are the two sides: they are more alike than these.

        Two normal variables of correlation r lie on the same side of their means as if these had a
        correlation of (2/π) asin r (Sheppard 1899).
        """
        return DesignEffect(np.sin(np.pi / 2 * self.correlation), self.sizes)


def _correlation(right: LesionSums) -> Figure:
    held = np.maximum(right.n, 1)
    share = right.x / held
    of_pictures = (right.n * share * (1 - share)).sum(axis=-1)
    of_lesions = (right.xx - 2 * share * right.xn + share**2 * right.nn).sum(axis=-1)
    pairs = np.maximum((right.nn - right.n).sum(axis=-1), 1)
    spread = of_pictures / np.maximum(right.n.sum(axis=-1), 1)
    alike = spread <= 0  # all right or all wrong: nothing is known
    return np.where(alike, 1.0, (of_lesions - of_pictures) / (pairs * np.where(alike, 1.0, spread)))
