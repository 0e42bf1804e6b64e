"""From subgroup numbers to names; what has no declared subgroup is called `undeclared`."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from registry.bundle.labels import UNDECLARED
from training.data.dataset import Examples


def count_by_subgroup(examples: Examples, subgroups: Sequence[str]) -> dict[str, int]:
    """Pictures by subgroup name; those with none are absent."""
    counts = np.bincount(examples.subgroups % (len(subgroups) + 1), minlength=len(subgroups) + 1)
    return {name: int(n) for name, n in zip((*subgroups, UNDECLARED), counts, strict=True) if n > 0}


def name_losses(sums: Tensor, drawn: Tensor, subgroups: Sequence[str]) -> Mapping[str, float]:
    """Mean loss by subgroup name from sums and counts `(subgroups + 1,)`, undeclared last."""
    named = zip((*subgroups, UNDECLARED), sums.tolist(), drawn.tolist(), strict=True)
    return {name: total / count for name, total, count in named if count > 0}


def in_subgroup(examples: Examples, subgroups: Sequence[str], name: str) -> Examples:
    """The examples of one subgroup, or of those undeclared."""
    index = -1 if name == UNDECLARED else list(subgroups).index(name)
    return examples.where(examples.subgroups == index)
