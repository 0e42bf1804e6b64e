"""A tone's converged head, drawn towards the global one (ridge regression with another centre).

    min_{W, b}  (1 / n) Σ_c L_c(W, b) + (λ / 2) (‖W − W_global‖² + ‖b − b_global‖²)

over the n training examples of one subgroup (`training.rounds.server.head_fit`). λ is the one of a few
strengths, and of ∞, which is the global head, at which examples that a head has not seen are most likely:
with cross-fitting a head without fold k is drawn to the global head without fold k, and scores that fold.

Departures: `b` is drawn, too; a class that a tone has no example of would else never be named.
"""

from typing import Literal

from personalization.strategies.base import WithoutEpochs

STRENGTHS = (1.0, 3.0, 10.0, 30.0)
EVALUATIONS = 60  # of one head's gradient, at most


class Shrink(WithoutEpochs):
    """Heads of subgroups that are fitted to convergence, at each λ of `STRENGTHS`."""

    name: Literal["shrink"] = "shrink"
