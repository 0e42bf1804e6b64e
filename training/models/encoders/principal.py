"""Principal components of features from sums over hospitals (Pearson 1901), in double precision.

With n pictures, the sum Σ r and the Gram matrix G = Σ r rᵀ of their raw features,

    μ = Σ r / n,   C = G / n − μ μᵀ = Σ_j λ_j u_j u_jᵀ,   λ_1 ≥ λ_2 ≥ …,

the first k components are the rows u_1 … u_k, divided by s = (λ_1 + … + λ_k)^½ k^−½: what they give has a
variance of 1 on average. Sums of hospitals add up to those of pooled pictures, and so does all that follows.
Of a Gram matrix the triangle on and above the diagonal is sent, row after row.
"""

import torch
from torch import Tensor

from training.errors import MessageError


def triangle(gram: Tensor) -> Tensor:
    """The values `(width (width + 1) / 2,)` on and above the diagonal of a matrix `(width, width)`."""
    return gram[tuple(torch.triu_indices(*gram.shape))]


def triangle_size(width: int) -> int:
    """How many values `triangle` has."""
    return width * (width + 1) // 2


def principal(n: float, total: Tensor, upper: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean `(width,)` and the first components, divided by s, `(count, width)`, float64.

    A component's sign is that of its largest value, positive.

    Args:
        n: how many pictures.
        total: the sum of their raw features `(width,)`.
        upper: `triangle` of their Gram matrix.
        count: how many components.

    Raises:
        MessageError: the sums are of no picture, or all features are the same.
    """
    mean = total / max(n, 1)
    width = len(mean)
    gram = torch.zeros(width, width, dtype=torch.float64)
    gram[tuple(torch.triu_indices(width, width))] = upper.double()
    gram = gram + gram.triu(1).T
    values, vectors = torch.linalg.eigh(gram / max(n, 1) - torch.outer(mean, mean))
    components, spread = vectors.T.flip(0)[:count], values.flip(0)[:count].clamp(min=0).mean().sqrt()
    if n < 1 or not spread > 0:
        raise MessageError(
            f"the sums of features of {n:.0f} training pictures have no spread to find components of; look "
            "in the logs of the hospitals for what was held back, or lower privacy.min_count"
        )
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    return mean, components * largest.sign() / spread
