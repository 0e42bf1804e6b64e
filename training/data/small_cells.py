"""Small-cell suppression: nothing is disclosed of a part of a subgroup with only a few pictures.

A part of fewer than the minimum is not disclosed. Nor may it follow from the others: what the block of the
whole subgroup counts beyond the parts that are disclosed is either nothing or at least the minimum. Where it
would be less, the smallest part that could be disclosed is kept back as well.

Each column is looked at by itself. Where one column's values lie within another's (a ward within a clinic),
parts of both may differ by a few pictures: ask for one of the two.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import Trait
from training.data.dataset import Examples


def unsuppressed(
    examples: Examples, traits: Mapping[str, Sequence[str]], min_count: int
) -> dict[Trait, NDArray[np.bool_]]:
    """Which examples `(n,)` have each trait that may be disclosed; none where they have no traits.

    Args:
        examples: the pictures of one subgroup that its block counts.
        traits: the columns and their values, in the order of `examples.traits`.
        min_count: a part of fewer pictures is not disclosed.
    """
    if examples.traits is None:
        return {}
    disclosed: dict[Trait, NDArray[np.bool_]] = {}
    for place, (column, values) in enumerate(traits.items()):
        of_each = examples.traits[:, place]
        sizes = np.bincount(of_each, minlength=len(values))
        for number in suppress_small_cells(sizes, min_count):
            disclosed[column, values[number]] = of_each == number
    return disclosed


def suppress_small_cells(sizes: NDArray[np.int64], min_count: int) -> list[int]:
    """The indices of the values that may be disclosed, from how many pictures each has."""
    disclosed = [number for number, size in enumerate(sizes.tolist()) if size >= max(min_count, 1)]
    rest = int(sizes.sum() - sizes[disclosed].sum())
    if disclosed and 0 < rest < min_count:
        disclosed.remove(min(disclosed, key=lambda number: int(sizes[number])))
    return disclosed
