"""Noise on the blocks of counts that a client sends."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.counts.counting import GRAIN, NOISE, NoisyCounts
from registry.bundle.counts.counts import Counts
from registry.bundle.labels import malignant_classes
from training.algorithms.client import Client
from training.data.dataset import FOLDED_CLASSES
from training.messages.message import Tensors, Update
from training.privacy.dp.counts import discrete_gaussian
from training.rounds.requests import EvaluateQuestion, read_blocks


@dataclass(frozen=True)
class Noise:
    """The noise that a client adds to its counts.

    Attributes:
        variance: v, in each cell, in sixteenths.
        together: whether others' noise hides this client's counts too. Then it adds its part for every
            subgroup that is asked for; else for those that it holds, as the census tells them.
    """

    variance: Fraction
    together: bool

    def added(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whole numbers with independent noise in each."""
        return values + discrete_gaussian(self.variance, values.size).reshape(values.shape)


def noisy_blocks(
    update: Update, question: EvaluateQuestion, client: Client, noise: Noise, *, histogram: bool
) -> tuple[Tensors, int]:
    """The blocks of an answer with noise, and how many units of noise they cost each of their subgroups.

    Args:
        update: with exact blocks.
        question: what was asked.
        client: of the pictures.
        noise: to add.
        histogram: whether the histogram of scores is told too.
    """
    malignant = np.array([False, True]) if question.folded else malignant_classes(client.dataset.labels)
    both = bool(malignant.any() and not malignant.all())
    classes = len(FOLDED_CLASSES) if question.folded else len(malignant)
    points = {name: block.point for name, block in read_blocks(update.tensors).items()}
    told = [name for name in question.subgroups if noise.together or name in points]
    found: dict[str, torch.Tensor] = {}
    for name in told:
        exact = NoisyCounts.of(points.get(name, Counts.zeros(classes)), histogram=histogram, both_kinds=both)
        found |= {
            f"{array}/{name}": torch.from_numpy(values)
            for array, values in with_noise(exact, noise).to_arrays().items()
        }
    nothing = NoisyCounts.of(Counts.zeros(classes), histogram=histogram, both_kinds=both)
    return found, len(nothing.parts)


def with_noise(counts: NoisyCounts, noise: Noise) -> NoisyCounts:
    """Counts with noise in every cell."""
    told = {name: noise.added(values) for name, values in counts.parts.items()}
    marked = np.array([int(noise.variance * GRAIN), counts.both_kinds])
    return NoisyCounts.from_arrays({**counts.to_arrays(), **told, NOISE: marked})
