"""Class-conditional Gaussians over the embedding, from sums that clients send (Lee et al. 2018, equation 1).

For each class k with enough training pictures, a client sends their number n_k and the sum of their
embeddings Σ x. Over those classes together it sends the scatter about its own means m_k,
W = Σ_k Σ_{i in k} (x_i − m_k)(x_i − m_k)ᵀ. The scatter of two clients a and b about their joint means is

    W = W_a + W_b + Σ_k n_a n_b / (n_a + n_b) (m_a − m_b)(m_a − m_b)ᵀ

(Chan, Golub and LeVeque 1983). It subtracts no large numbers from each other, so clients need not agree on a
reference point. Then μ_k = Σ x / n_k and S = W / n, with n the pictures of all classes.

S is shrunk towards a multiple of the identity with the oracle approximating shrinkage (Chen et al. 2010,
equations 4 and 23): with p features, Σ = (1 − ρ) S + ρ (tr S / p) I and

    ρ = min(1, (tr S² + tr² S) / ((n + 1) (tr S² − tr² S / p))).

Departures: the paper's 2/p is left out, as in scikit-learn: p is large.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.model import Gaussians
from training.data.cells import count_people
from training.errors import MessageError
from training.messages import Shapes, Tensors, Update

PICTURES, SUMS, SCATTER = "pictures", "sums", "scatter"


@dataclass(frozen=True)
class ClassSums:
    """Sums over training pictures of one or several clients; they add up.

    Attributes:
        pictures: n_k, `(classes,)` float64; 0 for a class that is left out.
        sums: Σ x of each class, `(classes, features)` float64.
        scatter: W, `(features, features)` float64.
    """

    pictures: NDArray[np.float64]
    sums: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @property
    def present(self) -> NDArray[np.int64]:
        """Indices of the classes that have pictures."""
        return np.flatnonzero(self.pictures)

    @property
    def n(self) -> int:
        """Pictures of all classes."""
        return int(self.pictures.sum())

    def __add__(self, other: "ClassSums") -> "ClassSums":
        shared = np.intersect1d(self.present, other.present)
        ours, theirs = self.pictures[shared, None], other.pictures[shared, None]
        apart = self.sums[shared] / ours - other.sums[shared] / theirs
        between = (apart * (ours * theirs / (ours + theirs))).T @ apart
        return ClassSums(
            self.pictures + other.pictures, self.sums + other.sums, self.scatter + other.scatter + between
        )

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """The sums as tensors to send: of the scatter, the lower triangle row by row."""
        return {
            PICTURES: torch.from_numpy(self.pictures),
            SUMS: torch.from_numpy(self.sums),
            SCATTER: torch.from_numpy(self.scatter[np.tril_indices(len(self.scatter))]),
        }

    @classmethod
    def from_update(cls, update: Update, features: int) -> "ClassSums":
        """Read the sums of an update, of the shapes that `shapes` gives.

        Raises:
            MessageError: they are no sums over whole pictures.
        """
        tensors: Tensors = update.tensors
        pictures = tensors[PICTURES].numpy()
        if (pictures < 0).any() or (pictures != np.floor(pictures)).any():
            raise MessageError(f"{update.client} reports {pictures.tolist()} pictures of the classes")
        scatter = np.zeros((features, features))
        scatter[np.tril_indices(features)] = tensors[SCATTER].numpy()
        if (scatter.diagonal() < 0).any():
            raise MessageError(
                f"{update.client} sent a scatter with {scatter.diagonal().min():g} on its diagonal; a sum of "
                "squares is never negative"
            )
        return cls(pictures, tensors[SUMS].numpy(), scatter + np.tril(scatter, -1).T)


def shapes(classes: int, features: int) -> Shapes:
    """The shapes of the tensors in which sums are sent."""
    return {
        PICTURES: torch.Size([classes]),
        SUMS: torch.Size([classes, features]),
        SCATTER: torch.Size([features * (features + 1) // 2]),
    }


def class_sums(
    embedding: NDArray[Any],
    labels: NDArray[np.int64],
    num_classes: int,
    min_count: int,
    patients: NDArray[np.int64] | None = None,
) -> ClassSums:
    """The class sums of one client's training pictures.

    Args:
        embedding: `(pictures, features)`.
        labels: class indices `(pictures,)`.
        num_classes: of the job.
        min_count: a class of fewer patients is left out altogether, of the scatter too: a sum of one is
            an embedding.
        patients: the patient of each picture, `(pictures,)`; each its own where not given.
    """
    features = embedding.shape[1]
    pictures = np.bincount(labels, minlength=num_classes).astype(np.float64)
    patients = np.arange(len(labels)) if patients is None else patients
    pictures[count_people(labels, patients, num_classes) < min_count] = 0
    sums = np.zeros((num_classes, features))
    # In torch, whose threads are the job's: NumPy's products depend on the machine's.
    scatter = torch.zeros(features, features, dtype=torch.float64)
    for k in np.flatnonzero(pictures):
        of_class = embedding[labels == k].astype(np.float64)
        sums[k] = of_class.sum(axis=0)
        apart = torch.from_numpy(of_class - sums[k] / pictures[k])
        scatter += apart.T @ apart
    return ClassSums(pictures, sums, scatter.numpy())


def total(many: Iterable[ClassSums], num_classes: int, features: int) -> ClassSums:
    """The sums of all clients."""
    nothing = ClassSums(
        np.zeros(num_classes), np.zeros((num_classes, features)), np.zeros((features, features))
    )
    return reduce(add, many, nothing)


def shrinkage(covariance: NDArray[np.float64], n: int) -> float:
    """ρ of S `(features, features)` of n pictures."""
    features = len(covariance)
    trace, trace_of_square = float(np.trace(covariance)), float((covariance**2).sum())
    spread = trace_of_square - trace**2 / features  # 0 for a multiple of the identity
    strength = (trace_of_square + trace**2) / ((n + 1) * spread) if spread > 0 else 1.0
    return min(1.0, strength)


def shrink_covariance(covariance: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Σ from S `(features, features)` of n pictures, by oracle approximating shrinkage."""
    features, strength = len(covariance), shrinkage(covariance, n)
    shared: NDArray[np.float64] = np.eye(features) * (float(np.trace(covariance)) / features)
    return (1 - strength) * covariance + strength * shared


def distances_left_out(
    gaussians: Gaussians, left_out: NDArray[np.float64], embedding: NDArray[Any], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """M(x) of training pictures, each from the Gaussians of all others, `(pictures,)`.

    With u = x − μ_c of the own class c and a = n_c / (n_c − 1), the others' mean of c is a u away from x.
    Their Σ is, with the ρ and the tr S / p of all, n / (n − 1) times Σ − β u uᵀ for β = (1 − ρ) a / n, so
    that by Sherman and Morrison (1950) for any v

        vᵀ Σ₋₁⁻¹ v = (n − 1) / n (vᵀ Σ⁻¹ v + β (uᵀ Σ⁻¹ v)² / (1 − β uᵀ Σ⁻¹ u)).

    Args:
        gaussians: of all.
        left_out: n_k of each of the job's classes, 0 where it has no Gaussian, then 1 − ρ; `(classes + 1,)`.
        embedding: `(pictures, features)`.
        labels: class indices `(pictures,)`.

    Raises:
        MessageError: the numbers are not of these Gaussians.
    """
    if left_out.ndim != 1 or np.count_nonzero(left_out[:-1] > 0) != len(gaussians.means):
        raise MessageError(
            f"numbers of pictures {left_out.tolist()} came with {len(gaussians.means)} Gaussians; they have "
            "one above 0 for each. Install the same version at the coordinator"
        )
    if len(labels) and labels.max() >= len(left_out) - 1:
        raise MessageError(
            f"numbers of pictures are of {len(left_out) - 1} classes, and there are pictures of class "
            f"{labels.max()}. Send the same job"
        )
    pictures, kept = left_out[:-1], left_out[-1]
    present, n = np.flatnonzero(pictures), pictures.sum()
    turned = torch.from_numpy(gaussians.whitening.astype(np.float64)).T
    white = (torch.from_numpy(embedding.astype(np.float64)) @ turned).numpy()
    means = (torch.from_numpy(gaussians.means.astype(np.float64)) @ turned).numpy()
    apart = white[:, None] - means  # (pictures, Gaussians, features)
    distances = (apart**2).sum(axis=2)
    place = np.full(len(pictures), -1)
    place[present] = np.arange(len(present))
    own = place[labels]
    inside = np.flatnonzero((own >= 0) & (pictures[labels] > 1))
    mine, size = own[inside], pictures[labels[inside]]
    factor = size / (size - 1)
    weight = kept * factor / n
    u = apart[inside, mine]
    across = np.einsum("pgf,pf->pg", apart[inside], u)
    square = distances[inside, mine]
    across[np.arange(len(inside)), mine] *= factor
    others = distances[inside]
    others[np.arange(len(inside)), mine] *= factor**2
    grown = others + (weight / np.maximum(1 - weight * square, 1e-9))[:, None] * across**2
    distances[inside] = grown * (n - 1) / n
    found: NDArray[np.float64] = distances.min(axis=1)
    return found


def left_out_of(sums: ClassSums) -> NDArray[np.float64]:
    """What `distances_left_out` needs in addition to the Gaussians, `(classes + 1,)`."""
    covariance = sums.scatter / sums.n
    return np.append(sums.pictures, 1 - shrinkage(covariance, sums.n))


def fit_gaussians(sums: ClassSums) -> Gaussians | None:
    """The Gaussians of the classes in `sums.present`; None where no embedding differs from its class mean.

    Raises:
        MessageError: the scatter is none, since some direction has a negative one.
    """
    present = sums.present
    if not len(present) or not np.trace(sums.scatter) > 0:
        return None
    covariance = torch.from_numpy(shrink_covariance(sums.scatter / sums.n, sums.n))
    lower, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise MessageError(
            "the scatter of the training pictures, added up over the clients, is none: along some direction "
            "it is negative. Do all clients run the same version of dermfed?"
        )
    identity = torch.eye(len(covariance), dtype=torch.float64)
    whitening = torch.linalg.solve_triangular(lower, identity, upper=False)
    means = sums.sums[present] / sums.pictures[present, None]
    return Gaussians(means.astype(np.float32), whitening.numpy().astype(np.float32))
