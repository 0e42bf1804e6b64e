"""Small-cell suppression: nothing is disclosed of a part of a subgroup with only a few patients.

A part of fewer than the minimum is not disclosed. Nor may it follow from the others: what the block of the
whole subgroup counts beyond the parts that are disclosed is either nothing or at least the minimum. Where it
would be less, the smallest part that could be disclosed is kept back as well.

Each column is looked at by itself. Where one column's values lie within another's (a ward within a clinic),
parts of both may differ by a few patients; `training.rounds.client.ledger` holds one against the
other.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import Trait
from training.data.dataset import Examples


def unsuppressed(
    examples: Examples, traits: Mapping[str, Sequence[str]], min_count: int
) -> dict[Trait, NDArray[np.bool_]]:
    """Which examples `(n,)` have each trait that may be disclosed; none where they have no traits.

    Args:
        examples: the pictures of one subgroup that its block counts.
        traits: the columns and their values, in the order of `examples.traits`.
        min_count: a part of fewer patients is not disclosed.
    """
    if examples.traits is None:
        return {}
    disclosed: dict[Trait, NDArray[np.bool_]] = {}
    for place, (column, values) in enumerate(traits.items()):
        of_each = examples.traits[:, place]
        for number in suppress_small_cells(of_each, examples.people, len(values), min_count):
            disclosed[column, values[number]] = of_each == number
    return disclosed


def suppress_small_cells(
    of_each: NDArray[np.int64], people: NDArray[np.int64], num_values: int, min_count: int
) -> list[int]:
    """The values that may be disclosed.

    Args:
        of_each: the value of each picture, `(n,)`.
        people: the patient of each picture, `(n,)`.
        num_values: values run from 0 to one below.
        min_count: the fewest patients of a value that is disclosed, and of the rest.
    """
    sizes = count_people(of_each, people, num_values)
    disclosed = np.flatnonzero(sizes >= max(min_count, 1)).tolist()
    rest = len(np.unique(people[~np.isin(of_each, disclosed)]))
    if disclosed and 0 < rest < min_count:
        disclosed.remove(min(disclosed, key=lambda number: int(sizes[number])))
    return disclosed


def count_people(of_each: NDArray[np.int64], people: NDArray[np.int64], num_values: int) -> NDArray[np.int64]:
    """How many patients have a picture of each value, `(num_values,)`; values below 0 are left out."""
    pairs = np.unique(np.stack([of_each, people]), axis=1)[0]
    return np.bincount(pairs[pairs >= 0], minlength=num_values)
