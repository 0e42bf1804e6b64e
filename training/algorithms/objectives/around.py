"""An objective that wraps another: the same local training, with one thing changed."""

from typing import Any, Self

from training.algorithms.objectives import Objective
from training.algorithms.objectives.base import LocalRound, LocalTask
from training.models import Classifier


class Around(Objective):
    """A wrapper of an objective, with its settings and, unless overridden, its answers.

    Attributes:
        inner: the other one.
    """

    inner: Objective

    @classmethod
    def of(cls, inner: Objective, **own: Any) -> Self:
        """Wrap `inner`, with what the member itself needs."""
        settings = {name: getattr(inner, name) for name in Objective.model_fields}
        return cls(**settings, inner=inner, **own)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """The parameters that the wrapped objective does not train."""
        return self.inner.frozen(model)

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Begin the wrapped objective's round."""
        return self.inner.begin(model, work)
