"""The pointing game (Zhang et al. 2018): whether the strongest cell of a map lies on the lesion."""

import numpy as np
from numpy.typing import NDArray

from registry.bundle.maps.relevance import by_strength


def points_at(grid: NDArray[np.floating], mask: NDArray[np.bool_]) -> bool:
    """Whether the middle of the strongest cell is on the lesion.

    Args:
        grid: the map, `(rows, columns)`.
        mask: where the lesion is in what the model sees, `(height, width)`.
    """
    row, column = divmod(int(by_strength(grid)[0]), grid.shape[1])
    return bool(
        mask[
            int((row + 0.5) * mask.shape[0] / grid.shape[0]),
            int((column + 0.5) * mask.shape[1] / grid.shape[1]),
        ]
    )


def by_chance(shape: tuple[int, int], mask: NDArray[np.bool_]) -> float:
    """The share of cells whose middle is on the lesion: what a map that points anywhere hits."""
    rows = ((np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]).astype(int)
    columns = ((np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]).astype(int)
    return float(mask[np.ix_(rows, columns)].mean())
