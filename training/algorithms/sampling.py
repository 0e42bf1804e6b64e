"""Sampling of a local epoch: which pictures are drawn, in which order, and what each class weighs.

With FedVC (Hsu et al. 2020) every client takes the same number of pictures a round, and so the same number of
steps: a large client is there as several virtual ones, each with a part of its pictures, and a small client's
pictures come more than once.
"""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ClassSampling = Literal["class-balanced", "uniform"]
Sampling = ClassSampling | Literal["square-root", "subgroup-balanced"]
ClassWeights = Literal["none", "inverse-frequency"]


def epoch_order(
    labels: NDArray[np.int64],
    sampling: Sampling,
    random: np.random.Generator,
    samples: int | None = None,
    subgroups: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Positions `(samples,)` of one epoch over n pictures.

    `uniform` is a permutation, as many of them as it takes or the first part of one. `class-balanced` draws
    with replacement so that every class that the client holds is expected equally often ("resampling", Xu et
    al. 2023, section V). `subgroup-balanced` does so for every class of every subgroup that the client holds,
    as far as `subgroups` tells them apart; undeclared pictures are one more subgroup. `square-root` is
    halfway between uniform and class-balanced: class k is expected as often as √n_k is of the sum of all such
    roots, n_k being its pictures (Mahajan et al. 2018, section 2.2).

    Args:
        labels: of the pictures, `(n,)`.
        sampling: how they are drawn.
        random: of the draw.
        samples: how many are drawn; n by default.
        subgroups: of the pictures, `(n,)`.
    """
    n = len(labels)
    wanted = n if samples is None else samples
    if sampling == "uniform":
        return repeated(n, wanted, random)
    return random.choice(n, size=wanted, p=draw_probabilities(labels, sampling, subgroups))


def draw_probabilities(
    labels: NDArray[np.int64], sampling: Sampling, subgroups: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """The share of all draws of `epoch_order` that each picture is expected to have, `(n,)`."""
    if sampling == "uniform":
        return np.full(len(labels), 1 / max(len(labels), 1))
    kinds = labels[:, np.newaxis]
    if sampling == "subgroup-balanced" and subgroups is not None:
        kinds = np.stack([labels, subgroups], axis=1)
    present, inverse, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    shares = np.sqrt(counts) if sampling == "square-root" else counts
    probabilities = 1.0 / (len(present) * shares[inverse])
    normalised: NDArray[np.float64] = probabilities / probabilities.sum()
    return normalised


def repeated(n: int, wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """So many positions of n pictures, none again before each has come as often."""
    times = -(-wanted // n) if wanted else 0
    orders = [random.permutation(n) for _ in range(times)]
    return np.concatenate(orders)[:wanted] if orders else np.empty(0, dtype=np.int64)


def class_weights(
    labels: NDArray[np.int64], num_classes: int, weighting: ClassWeights, device: torch.device
) -> Tensor | None:
    """What the loss of a picture of each class counts `(classes,)`; None where all count alike.

    `inverse-frequency`: w_k = n / (K n_k) with n_k the client's n labelled pictures of class k and K the
    classes that it holds, so that the mean weight of its pictures is 1. A class that it does not hold has 0.
    """
    if weighting == "none":
        return None
    held = np.bincount(labels[labels >= 0], minlength=num_classes)
    present = held > 0
    weights = np.zeros(num_classes)
    weights[present] = held.sum() / (present.sum() * held[present])
    return torch.from_numpy(weights).float().to(device)


def in_batches(order: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """`order` cut into batches; a last batch of one picture joins the one before it.

    A batch of one has no variance, on which batch normalisation fails.
    """
    cuts = list(range(batch_size, len(order), batch_size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()
    return np.split(order, cuts)
