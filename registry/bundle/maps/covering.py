"""Pictures with some of their cells covered, to see what a model makes of the rest (Petsiuk et al. 2018).

What is covered gets the mean colour of what is not: of a lesion that is covered whole, that of the skin
around it. An edge stays: what counts is the difference to other cells of the same shape.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

SHARES: Final = (0.1, 0.2, 0.3, 0.5)
"""Of the cells, covered one after the other, the strongest first: the points of a deletion curve."""


def covered(
    pixels: NDArray[np.uint8],
    order: NDArray[np.int64],
    shape: tuple[int, int],
    shares: Sequence[float] = SHARES,
) -> NDArray[np.uint8]:
    """A picture with its first cells covered, once for each share, `(shares, size, size, 3)`.

    Args:
        pixels: what the model sees, `(size, size, 3)`.
        order: the numbers of the cells, row by row, in the order in which they are covered.
        shape: rows and columns of the cells.
        shares: how many of them, rounded up.
    """
    size = len(pixels)
    rows = np.minimum(np.arange(size) * shape[0] // size, shape[0] - 1)
    columns = np.minimum(np.arange(size) * shape[1] // size, shape[1] - 1)
    cell = rows[:, None] * shape[1] + columns[None, :]
    made = np.repeat(pixels[None], len(shares), axis=0)
    for place, share in enumerate(shares):
        hidden = np.isin(cell, order[: ceil(share * len(order))])
        if not hidden.all():
            made[place][hidden] = np.round(pixels[~hidden].mean(axis=0)).astype(np.uint8)
    return made
