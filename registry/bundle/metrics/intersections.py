"""Figures of intersections of a subgroup and a trait, such as dark-skinned women.

Few pictures tell little: an intersection of fewer than `FEWEST` is unknown, and is shown as that and not as a
number.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import Cell, HasConfusion
from registry.bundle.counts.count import Block
from registry.bundle.metrics import classification, malignancy
from registry.bundle.metrics.design_effect import DesignEffect
from registry.bundle.metrics.estimate import figures_and_intervals
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import Sample

FEWEST = 30
UNKNOWN = "unknown"
"""The value of a picture of which nothing is known in a column; the last of all values."""


def intersections(
    blocks: Mapping[str, Block],
    subgroups: Sequence[str],
    malignant: NDArray[np.bool_],
    known: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """By column, value and subgroup: pictures, accuracy, balanced accuracy and sensitivity for malignancy.

    None stands for an intersection of which clients disclosed fewer than `FEWEST` pictures; each client
    suppresses its own small cells.

    Args:
        blocks: counts by subgroup, with their cells.
        subgroups: those to report.
        malignant: which classes are malignant, `(classes,)`.
        known: the columns that were asked for, and their values as far as they are known beforehand, in
            order; what clients send of other columns is left out.
    """
    effects = {name: DesignEffect.of(block) for name, block in blocks.items()}
    traits = {trait for block in blocks.values() for trait in block.cells}
    return {
        column: {
            value: {
                name: _figures_of_cell(blocks[name].cells.get((column, value)), effects[name], malignant)
                if name in blocks
                else None
                for name in subgroups
            }
            for value in _in_order({value for own, value in traits if own == column}, values)
        }
        for column, values in known.items()
    }


def _in_order(found: set[str], known: Sequence[str]) -> list[str]:
    """Values as they are known, then others by name, and last what is unknown."""
    values = dict.fromkeys([*known, *sorted(found)])
    return sorted(values, key=lambda value: value == UNKNOWN)


def _figures_of_cell(
    cell: Cell | None, effect: DesignEffect, malignant: NDArray[np.bool_]
) -> dict[str, Any] | None:
    if cell is None or cell.point.n < FEWEST:
        return None
    figures: Mapping[str, Callable[[HasConfusion], Figure]] = {
        "accuracy": classification.accuracy,
        "balanced_accuracy": classification.balanced_accuracy,
        "malignant_sensitivity": partial(malignancy.malignant_sensitivity, malignant=malignant),
    }
    return figures_and_intervals(Sample(cell.point, effect), figures, malignant)
