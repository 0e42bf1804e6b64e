"""An objective around another: the same local training, with one thing changed about it."""

from typing import Any, Self

from training.models import Classifier
from training.objectives import Objective
from training.objectives.base import LocalTask, LocalWork


class Around(Objective):
    """Another objective's settings and, unless a member says otherwise, its answers.

    Attributes:
        inner: the other one.
    """

    inner: Objective

    @classmethod
    def of(cls, inner: Objective, **own: Any) -> Self:
        """One around `inner`, with what the member itself needs."""
        settings = {name: getattr(inner, name) for name in Objective.model_fields}
        return cls(**settings, inner=inner, **own)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """What the other one does not train."""
        return self.inner.frozen(model)

    def begin(self, model: Classifier, work: LocalWork) -> LocalTask:
        """The other one's round."""
        return self.inner.begin(model, work)
