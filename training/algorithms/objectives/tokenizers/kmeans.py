"""Federated k-means: seeds from two moments, then Lloyd's steps from sums by cell; points never leave.

A point's cell is that of its nearest centroid; a step moves each centroid to the mean of its cell (Lloyd
1982). Both moments and sums add up over clients, so the server's step is that of all points together. Points
are whole numbers in double precision: their sums are exact, so neither the order of clients nor that of
points matters.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Of n points in so many dimensions.

    Attributes:
        n: how many, a scalar.
        total: Σ x `(dimensions,)`.
        products: Σ x xᵀ `(dimensions, dimensions)`.
    """

    n: Tensor
    total: Tensor
    products: Tensor

    @classmethod
    def none(cls, dimensions: int, device: torch.device) -> "Moments":
        """Of no points."""
        zeros = torch.zeros(dimensions, dimensions, dtype=torch.float64, device=device)
        return cls(zeros.new_zeros(()), zeros.new_zeros(dimensions), zeros)

    def __add__(self, other: "Moments") -> "Moments":
        """Of both sets of points."""
        return Moments(self.n + other.n, self.total + other.total, self.products + other.products)


def moments(points: Tensor) -> Moments:
    """Of points `(n, dimensions)`."""
    n = torch.tensor(float(len(points)), dtype=torch.float64, device=points.device)
    return Moments(n, points.sum(dim=0), points.T @ points)


def draw_seeds(known: Moments, count: int, random: np.random.Generator) -> Tensor:
    """Points `(count, dimensions)` drawn from the Gaussian with these moments: none is one of the points."""
    mean = known.total / known.n
    covariance = (known.products / known.n - torch.outer(mean, mean)).numpy()
    variances, axes = np.linalg.eigh(covariance)
    # What rounding leaves of a direction in which nothing varies may be below zero.
    spread = axes * np.sqrt(variances.clip(min=0))
    return mean + torch.from_numpy(random.standard_normal((count, len(mean))) @ spread.T)


@dataclass(frozen=True)
class Cells:
    """What is known of the points around each centroid.

    Attributes:
        totals: Σ x of each cell `(centroids, dimensions)`.
        counts: its points `(centroids,)`.
    """

    totals: Tensor
    counts: Tensor

    def __add__(self, other: "Cells") -> "Cells":
        """Of both sets of points."""
        return Cells(self.totals + other.totals, self.counts + other.counts)

    def only(self, disclosed: Tensor) -> "Cells":
        """Those of some cells `(centroids,)` bool; of the others zeros."""
        return Cells(self.totals * disclosed.unsqueeze(1), self.counts * disclosed)

    def move(self, centroids: Tensor) -> Tensor:
        """The centroids after a step; one whose cell is empty stays where it is."""
        means = self.totals / self.counts.clamp(min=1).unsqueeze(1)
        return torch.where(self.counts.unsqueeze(1) > 0, means, centroids)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """The nearest centroid of each point `(n,)`."""
    # ‖x − c‖² = ‖x‖² − 2 (x·c − ‖c‖²/2), and ‖x‖² is the same for all centroids.
    return (points @ centroids.T - centroids.square().sum(dim=1) / 2).argmax(dim=1)


def cells(points: Tensor, own: Tensor, count: int) -> Cells:
    """The cells of points `(n, dimensions)` whose nearest of so many centroids are `own` `(n,)`."""
    totals = points.new_zeros(count, points.shape[1]).index_add_(0, own, points)
    return Cells(totals, torch.bincount(own, minlength=count).to(points.dtype))
