"""The map of one class as people are shown it: each cell as a share of the strongest one."""

import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.float64]
"""One picture's map of one class, `(rows, columns)`."""


def relevance(grids: NDArray[np.float32]) -> NDArray[np.float64]:
    """What speaks for a class, as shares from 0 to 1 of the strongest cell of all pictures of a lesion.

    What speaks against the class is 0, as in Grad-CAM (Selvaraju et al. 2017, Eq. 2); where nothing speaks
    for it, everything is.

    Args:
        grids: of one class, `(pictures, rows, columns)`, in units of logits.
    """
    positive = np.clip(grids.astype(np.float64), 0, None)
    strongest = positive.max(initial=0.0)
    return positive / strongest if strongest > 0 else positive


def by_strength(grid: NDArray[np.floating]) -> NDArray[np.int64]:
    """The numbers of a map's cells, row by row, the strongest first; of equals the first comes first."""
    return np.argsort(-grid.astype(np.float64), axis=None, kind="stable").astype(np.int64)
