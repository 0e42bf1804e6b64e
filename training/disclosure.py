"""Which parts of a subgroup a client may tell of, so that nothing is told of a few pictures.

A part of fewer than the minimum is not told. Nor may it follow from the others: what the block of the whole
subgroup counts beyond the parts that are told is either nothing or at least the minimum. Where it would be
less, the smallest part that could be told is kept back as well.

Each column is looked at by itself. Where one column's values lie within another's (a ward within a clinic),
parts of both may differ by a few pictures: ask for one of the two.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cell import Trait
from training.data import Examples


def parts_to_tell(
    examples: Examples, traits: Mapping[str, Sequence[str]], min_count: int
) -> dict[Trait, NDArray[np.bool_]]:
    """Which examples `(n,)` have each trait that may be told of; none where they have no traits.

    Args:
        examples: the pictures of one subgroup that its block counts.
        traits: the columns and their values, in the order of `examples.traits`.
        min_count: a part of fewer pictures is not told.
    """
    if examples.traits is None:
        return {}
    told: dict[Trait, NDArray[np.bool_]] = {}
    for place, (column, values) in enumerate(traits.items()):
        of_each = examples.traits[:, place]
        sizes = np.bincount(of_each, minlength=len(values))
        for number in values_to_tell(sizes, min_count):
            told[column, values[number]] = of_each == number
    return told


def values_to_tell(sizes: NDArray[np.int64], min_count: int) -> list[int]:
    """The places of the values to tell of, from how many pictures each has."""
    told = [number for number, size in enumerate(sizes.tolist()) if size >= max(min_count, 1)]
    rest = int(sizes.sum() - sizes[told].sum())
    if told and 0 < rest < min_count:
        told.remove(min(told, key=lambda number: int(sizes[number])))
    return told
