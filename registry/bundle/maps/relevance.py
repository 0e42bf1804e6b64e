"""The map of one class as people are shown it: each cell as a share of the strongest one."""

import numpy as np
from numpy.typing import NDArray


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
