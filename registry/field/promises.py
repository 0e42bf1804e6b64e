"""Promises as observations whose mean is at least 0 while they hold, weighed by who is followed up.

Of a malignant lesion that was called so, sensitivity σ or more is promised: the mean of X = called − σ is at
least 0 among all malignant lesions. Outcomes come of some of them, of those that were not called much more
seldom. Of the outcomes that are looked at together, `c_s` are of stratum s, benign ones included, and `a_s`
were answered: each counts `w_s`, in proportion to `a_s / c_s` and 1 at most (Horvitz and Thompson 1952,
scaled to stay within the bound of a bet). So the weights are of the same outcomes as the bet. They may be:
which answers come back says nothing of what they were, within a stratum (Begg and Greenes 1983). Given `a`
and `c`, with `p_s` the share of malignant ones, `h_s` whether the stratum is called so and b = 1 − σ, the
product of all 1 − κ w_s (h_s − σ) / b over the malignant outcomes is expected to be

    ∏_s (1 − p_s κ w_s (h_s − σ) / b)^{c_s}  ≤  exp(−κ / b · ∑_s c_s w_s p_s (h_s − σ)),

and as c_s w_s is in proportion to a_s, the sum is at least 0 while the promise holds: the bet is fair, in
whatever order and however late outcomes come, and whoever is followed up from when on. It takes `a_s` for the
shares of all who are ever answered.
"""

import numpy as np
from numpy.typing import NDArray

FEW = 5
"""With fewer outcomes than so many in a stratum its side of the working point is weighed as one."""


def follow_up_weights(
    answered: NDArray[np.int64], confirmed: NDArray[np.int64], flagged: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The weight of an outcome in each stratum, each in (0, 1], `(strata,)`.

    Args:
        answered: answers, `(strata,)`.
        confirmed: outcomes that are weighed together, whatever they say; on either side of the working point
            that was answered there is one.
        flagged: which strata are above the working point.
    """
    inverse = np.zeros(len(answered))
    for side in (flagged, ~flagged):
        of = side & ((answered > 0) | (confirmed > 0))
        if not of.any():
            continue
        if (confirmed[of] < FEW).any():
            inverse[of] = answered[of].sum() / confirmed[of].sum()
        else:
            inverse[of] = answered[of] / confirmed[of]
    weights: NDArray[np.float64] = inverse / inverse.max()
    return np.where(weights > 0, weights, 1.0)


def kept_promise(
    hit: NDArray[np.bool_], weight: NDArray[np.float64], promised: float
) -> tuple[NDArray[np.float64], float]:
    """Observations of a promised share of hits, `(observations,)`, and their bound.

    Args:
        hit: whether each counts for the promise: a malignant lesion that was called so, a set that held the
            right class.
        weight: of each, from `follow_up_weights`.
        promised: the share that is promised, between 0 and 1.

    Raises:
        ValueError: nothing can be held against a promise of 0, and 1 is broken by one observation.
    """
    if not 0 < promised < 1:
        raise ValueError(f"a promised share of {promised} cannot be watched; it lies between 0 and 1")
    return weight * (hit - promised), 1 - promised
