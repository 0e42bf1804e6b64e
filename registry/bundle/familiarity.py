"""Out-of-distribution distance of a picture: Mahalanobis, by class (Lee et al. 2018, equations 1 and 2).

With μ_k the mean embedding of class k and Σ = L Lᵀ one covariance that all classes share, the distance of
a picture whose embedding is x is the squared Mahalanobis distance to the nearest class,

    M(x) = min_k (x − μ_k)ᵀ Σ⁻¹ (x − μ_k) = min_k |L⁻¹ (x − μ_k)|².

The paper's confidence is −M. Distances are counted, and compared with a threshold, in fixed bins of equal
width in log M: 200 to the power of ten, 1.2 % each.

Departures: the embedding before the head alone, no ensemble over layers, no perturbed inputs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError

BINS_PER_DECADE: Final = 200
SMALLEST, LARGEST = -3, 9  # powers of ten
DISTANCE_BINS: Final = BINS_PER_DECADE * (LARGEST - SMALLEST)
"""Bins of a distance: bin i holds [10^(i/200 − 3), 10^((i + 1)/200 − 3)); the outer ones are open."""

_INNER_EDGES: NDArray[np.float64] = 10.0 ** (np.arange(1, DISTANCE_BINS) / BINS_PER_DECADE + SMALLEST)
_INNER_EDGES.flags.writeable = False


def distance_bin(distances: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each distance, 0 to `DISTANCE_BINS` − 1, in the shape of `distances`."""
    return np.searchsorted(_INNER_EDGES, np.asarray(distances, dtype=np.float64), side="right")


def upper_edge(index: int) -> float:
    """The upper edge of the bin `index`; the last bin has none."""
    return float(_INNER_EDGES[index])


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Gaussians:
    """One Gaussian per class over the embedding, with a covariance that all share.

    Attributes:
        means: μ_k, `(classes, features)` float32.
        whitening: L⁻¹, lower triangular, `(features, features)` float32.
    """

    means: NDArray[np.float32]
    whitening: NDArray[np.float32]

    @property
    def num_features(self) -> int:
        """The length of an embedding."""
        return int(self.means.shape[1])

    def distances(self, embedding: NDArray[Any]) -> NDArray[np.float64]:
        """M(x) of each row of `embedding` `(pictures, features)`, `(pictures,)`.

        Raises:
            GraphError: the embedding has another number of features.
        """
        if embedding.ndim != 2 or embedding.shape[1] != self.num_features:
            raise GraphError(
                f"the embedding has shape {embedding.shape}; the distance from the training pictures was "
                f"fitted on {self.num_features} features. Take the graph that the bundle was calibrated with"
            )
        turned, centre, of_class = self._whitened
        white = (np.asarray(embedding, dtype=np.float64) - centre) @ turned
        apart = [((white - mean) ** 2).sum(axis=1) for mean in of_class]
        nearest: NDArray[np.float64] = np.min(apart, axis=0)
        return nearest

    @cached_property
    def _whitened(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """L⁻ᵀ, a point amid the means from which all is measured, and L⁻¹ μ_k from there."""
        turned = self.whitening.astype(np.float64).T
        means = self.means.astype(np.float64)
        centre: NDArray[np.float64] = means.mean(axis=0)
        return turned, centre, (means - centre) @ turned
