"""Noise on the blocks of counts that a client sends."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.counts.noisy import GRAIN, NoisyCounts
from registry.bundle.manifest.labels import malignant_classes
from training.algorithms.client import Client
from training.data.dataset import FOLDED_CLASSES
from training.federation.blocks import EvaluateQuestion, read_blocks
from training.messages.message import Tensors, Update
from training.updates.differential_privacy.discrete_gaussian import discrete_gaussian


@dataclass(frozen=True)
class Noise:
    """The noise that a client adds to its counts.

    Attributes:
        variance: v, of a count that one patient changes by 1, in sixteenths.
        together: whether others' noise hides this client's counts too. Then it adds its part for every
            subgroup that is asked for; else for those that it holds.
    """

    variance: Fraction
    together: bool

    @property
    def sixteenths(self) -> int:
        """16 v."""
        return int(self.variance * GRAIN)

    def added(self, values: NDArray[np.int64], scale: NDArray[np.int64] | int = 1) -> NDArray[np.int64]:
        """Whole numbers with independent noise in each, of variance v times `scale`."""
        scales = np.broadcast_to(np.asarray(scale), values.shape)
        told = values.astype(np.int64)
        for each in np.unique(scales).tolist():
            chosen = scales == each
            told[chosen] += discrete_gaussian(self.variance * each, int(chosen.sum()))
        return told


def noisy_blocks(
    update: Update, question: EvaluateQuestion, client: Client, noise: Noise, *, histogram: bool
) -> tuple[Tensors, int]:
    """The blocks of an answer with noise, and what they cost each of their subgroups.

    Args:
        update: with exact blocks.
        question: what was asked.
        client: of the pictures.
        noise: to add.
        histogram: whether the histogram of scores is told too.
    """
    malignant = np.array([False, True]) if question.folded else malignant_classes(client.dataset.labels)
    both = bool(malignant.any() and not malignant.all())
    exact = {
        name: NoisyCounts.of(
            block.point,
            None if block.decisions is None else block.decisions.sums,
            histogram=histogram,
            both_kinds=both,
        )
        for name, block in read_blocks(update.tensors).items()
    }
    nothing = NoisyCounts.nothing(
        len(FOLDED_CLASSES) if question.folded else len(malignant),
        histogram=histogram,
        tallies=question.thresholds is not None,
        both_kinds=both,
    )
    if noise.together:
        exact = {name: exact.get(name, nothing) for name in question.subgroups}
    told = {
        f"{array}/{name}": torch.from_numpy(values)
        for name, counts in exact.items()
        for array, values in with_noise(counts, noise).to_arrays().items()
    }
    return told, len(nothing.parts)


def with_noise(counts: NoisyCounts, noise: Noise) -> NoisyCounts:
    """Counts with noise in every cell."""
    told = {name: noise.added(values, scale) for name, (values, scale) in counts.parts.items()}
    marked = np.array([noise.sixteenths, counts.both_kinds])
    return NoisyCounts.from_arrays({**told, "noise": marked})
